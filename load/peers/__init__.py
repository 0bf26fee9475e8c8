"""Live transcription beside the other servers that do it, on one machine, with the same weights and recordings."""
