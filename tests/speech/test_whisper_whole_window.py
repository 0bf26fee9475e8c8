"""Languages whose finals take the whole window, because frozen padding costs them words."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from speech.asr import DecodeOptions, FinalRequest, PartialRequest, Utterance
from speech.models import resolve
from speech.whisper import weights
from speech.whisper.backend import WhisperBackend
from speech.whisper.encoder import FRAMES
from speech.whisper.profile import WHOLE_WINDOW, Precision
from tests.speech.whisper_models import recording, reference
from workers.backend import Done


def made(model: str, whole: frozenset[str]) -> WhisperBackend:
    torch.set_num_threads(1)
    folder = resolve(model).directory
    backend = WhisperBackend(model, weights.load(folder), folder, Precision(), 0, whole)
    backend.load("cpu")
    return backend


def answer(backend: WhisperBackend, request: FinalRequest) -> tuple[Any, int]:
    """The transcript, and how many frames were encoded last."""
    job = backend.open(request)
    while True:
        (result,) = backend.step([job])
        assert not isinstance(result, Exception)
        if isinstance(result, Done):
            return result.output, job.frames


@pytest.mark.long
def test_finals_of_such_a_language_are_what_the_whole_window_gives_and_partials_stay_short() -> None:
    backend, samples = made("tiny.en", frozenset({"en"})), recording("austen-0870.wav")
    options = DecodeOptions(language="en", temperatures=(0.0,))
    text, frames = answer(backend, FinalRequest(samples, options))
    segments, _ = reference().transcribe(
        samples, language="en", beam_size=1, temperature=0.0, without_timestamps=True, vad_filter=False
    )
    assert frames == FRAMES
    assert text.text == " ".join(segment.text.strip() for segment in segments)
    utterance = Utterance()
    utterance.append(samples[:48_000])
    assert backend.open(PartialRequest(utterance, 48_000, options=options)).frames < FRAMES


@pytest.mark.long
def test_a_language_that_is_only_found_while_decoding_gets_it_too() -> None:
    assert WHOLE_WINDOW["base"] == {"es"}
    samples, options = recording("austen-0880.wav"), DecodeOptions(temperatures=(0.0,))
    backend = made("base", frozenset({"en"}))
    found, frames = answer(backend, FinalRequest(samples, options))
    assert (found.language, frames) == ("en", FRAMES)
    assert "young man" in found.text
