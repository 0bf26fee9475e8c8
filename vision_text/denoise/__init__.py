"""Pictures and clips out of noise: one loop for both, step by step, with requests at different steps side by side."""
