"""Models that draw and models that see, on trial."""
