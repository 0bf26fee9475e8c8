"""From bytes to words and back: audio, voice activity, live transcription, speech backends. No network in here."""

import os

# ONNX Runtime reports to its maker by default: it keeps an identifier of the device and uploads events. What runs on
# your own machine stays there. It has to be told before it is imported the first time; who sets it otherwise is heard.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
