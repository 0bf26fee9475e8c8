"""vosk-server's WebSocket on the same engine. It has no ids and no errors: a frame of sound gets one answer."""
