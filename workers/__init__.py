"""The shared worker model: every model on every device is served by one loop that runs batches of steps."""
