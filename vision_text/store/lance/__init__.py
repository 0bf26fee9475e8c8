"""Collections in a folder: LanceDB inside this process."""
