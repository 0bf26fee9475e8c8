"""Sound on its way out: float32 at a voice's rate to the bytes that a listener asked for, as it is made or whole."""

from speech.encode.encoder import Encoder, SoundFile, encode_whole
from speech.encode.formats import FORMATS, OutputFormat, output_format

__all__ = ["FORMATS", "Encoder", "OutputFormat", "SoundFile", "encode_whole", "output_format"]
