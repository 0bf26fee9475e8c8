"""What looks wrong in a transcript, found in its text and proved on its audio."""
