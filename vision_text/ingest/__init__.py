"""Documents of many kinds into a collection: read, cut, embedded and stored, each exactly once."""
