"""Scripts that train the small models. Run by hand and in the slow job, never by the service."""
