"""Text for speech: what is written becomes what is said, and remembers where it came from."""
