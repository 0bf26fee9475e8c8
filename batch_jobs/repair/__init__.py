"""Suspicious spans transcribed again in other ways; the better text is kept, by a stated score."""
