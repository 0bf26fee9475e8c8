"""Voices: synthesis models as backends of the step loop."""
