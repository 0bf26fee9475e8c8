"""The service: HTTP, WebSocket, wire protocols, sessions, keys and limits, metrics, the page, the command line."""
