"""Wyoming, the protocol of voice satellites and Home Assistant, over TCP on the same engine. It has no keys."""
