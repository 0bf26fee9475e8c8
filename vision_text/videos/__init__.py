"""Clips out of words."""
