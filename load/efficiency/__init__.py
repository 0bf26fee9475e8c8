"""What everything around the models costs, and what becomes of it as work grows."""
