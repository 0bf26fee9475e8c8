"""Measurements of the service: from outside over the wire, or of one of its parts alone."""
