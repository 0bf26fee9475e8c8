"""The next factor in the cost of live Whisper: what was tried, measured against the engine as it is served."""
