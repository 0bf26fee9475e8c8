"""Text for speech: what is written becomes what is said, and remembers where it came from."""

from speech.text.explain import Explanation, explain
from speech.text.lexicon import Lexicon
from speech.text.normaliser import Reading, normalise, read
from speech.text.options import TextOptions
from speech.text.segmenter import TextSegment, TextSegmenter
from speech.text.spoken import Spoken

__all__ = [
    "Explanation",
    "Lexicon",
    "Reading",
    "Spoken",
    "TextOptions",
    "TextSegment",
    "TextSegmenter",
    "explain",
    "normalise",
    "read",
]
