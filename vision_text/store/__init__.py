"""Collections of texts with their vectors: kept, found again by meaning, by words and by both."""
