"""API keys that are made and revoked while the service runs: how they are kept, checked and limited."""
