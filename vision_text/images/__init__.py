"""Models that make pictures."""
