"""Media files of every kind to 16 kHz sound: probed, decoded as a stream, damage located, channels mixed or kept."""
