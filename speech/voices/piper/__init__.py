"""Piper voices, each in processes of its own: Piper is not part of this program and never loaded into it."""
