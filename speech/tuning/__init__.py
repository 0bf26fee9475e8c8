"""Models that hear and voices, on trial."""
