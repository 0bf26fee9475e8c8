"""Tuning for people: the report of a trial, what a service does with its outcome, and whether it still holds."""
