"""Speaking: text in as it comes, sound out in time for the listener."""
