"""One model over a group of processes: its context split (Ulysses), or its guidance's two branches side by side."""
