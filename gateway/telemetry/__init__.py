"""What the service tells of itself to those who run it: lines of the log, traces, and what both know of a session."""
