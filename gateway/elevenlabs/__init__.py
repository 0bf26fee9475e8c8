"""ElevenLabs' wire on the same engine: text to speech over HTTP and WebSocket, for clients that exist already."""
