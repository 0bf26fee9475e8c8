"""Whisper as a live engine: it pays for the speech, not for the 30-second window.

weights → dense → encoder (frozen padding, incremental) + decoder (kept caches, drafts) → rules → alignment → backend.
Method and measurements: docs/whisper.md.
"""
