"""The embedded voice: hibari's weights, served in three stages that batch across listeners.

weights → plan (phonemes to durations and prosody) → decoder (spectra, window by window) → wave (samples) → backend.
The package's own graph takes a whole sentence at once, with int8 rounding that depends on everything in it; here the
weights are float32, and what a window needs from the one before is carried, so that windows add up to the one-shot
result and no stream hears another.
"""
