"""OpenAI's Realtime protocol for live transcription, in its general (GA) and its beta shape.

Deviations and extensions, all additive: PCM at any rate from 8000 to 48000 Hz; `semantic_vad` turns eagerness into a
length of silence; and with `include`, words with times and confidence on completed ("x.words"), the tail that may still
change as x.transcription.unstable ("x.unstable"), and how far behind the service is ("x.lag").
"""

from gateway.realtime.handler import realtime_handler

__all__ = ["realtime_handler"]
