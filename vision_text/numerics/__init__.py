"""Lower precision: real where the hardware has the type, simulated in float32 where it has not, and said so."""
