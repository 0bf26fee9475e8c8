"""Procedural pictures and clips whose words, pixels and answers are known exactly: what small models learn from."""
