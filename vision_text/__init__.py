"""Embeddings, and what else sees and reads: models on the devices of `workers`. No network."""
