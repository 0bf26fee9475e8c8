"""Vectors of texts and pictures: which space they live in, and the models that make them."""
