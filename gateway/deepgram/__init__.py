"""Deepgram's /v1/listen on the same engine: live on a socket, and whole recordings."""
