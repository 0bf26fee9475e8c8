"""From bytes to words and back: audio, voice activity, live transcription, speech backends. No network in here."""
