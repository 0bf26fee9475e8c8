"""The gate of frozen padding and incremental encoding: same words, how much less work.

For every recording: the full 30-second window, frozen padding in one pass (finals) and increments of a second
(partials), each through the same decoder, finals with the fallback and the guards of the service; word error rate,
agreement with the full window, CPU seconds per audio second. Then the cost of a partial at second 2 and 20, and a
whole partial beside a full-window encode and CTranslate2 generate.

    python -m load.whisper_window --model tiny.en --language en --clips 200
"""

from __future__ import annotations

import argparse
import asyncio
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ctranslate2
import jiwer
import numpy as np
import torch
from faster_whisper import WhisperModel, decode_audio
from rich.console import Console
from rich.progress import track
from rich.table import Table
from whisper_normalizer.basic import BasicTextNormalizer
from whisper_normalizer.english import EnglishTextNormalizer

from load import corpora
from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, PartialRequest, Samples, Transcript, Utterance
from speech.config import StreamConfig
from speech.finals import final
from speech.models import resolve
from speech.pieces import Piece
from speech.whisper import weights
from speech.whisper.backend import WhisperBackend
from speech.whisper.encoder import FRAMES, Encoding
from speech.whisper.features import LogMel
from speech.whisper.profile import PROVEN_PROBES, WHOLE_WINDOW, Precision
from workers.backend import Done

Decode = Callable[[FinalRequest], tuple[Transcript, float]]
"""(transcript, CPU seconds of the encoder) of a request."""


@dataclass(slots=True)
class Row:
    """What one way of encoding gave."""

    seconds: float = 0.0
    texts: list[str] = field(default_factory=list)


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    """(CPU seconds of this process, result)."""
    start = time.process_time()
    out = work()
    return time.process_time() - start, out


def run(backend: WhisperBackend, request: FinalRequest | PartialRequest) -> tuple[Any, float, float]:
    """(answer, CPU seconds encoding, CPU seconds decoding) of one request alone."""
    job, encode, decode = backend.open(request), 0.0, 0.0
    while True:
        encoding = job.sequence is None
        took, (result,) = cpu(lambda: backend.step([job]))
        encode, decode = (encode + took, decode) if encoding else (encode, decode + took)
        if isinstance(result, Exception):
            raise result
        if isinstance(result, Done):
            return result.output, encode, decode


def served(samples: Samples, options: DecodeOptions, decode: Callable[[FinalRequest], Transcript]) -> str:
    """The text the service would answer: `decode`, and what finals do about words without voice and a missing tail."""
    voice = np.flatnonzero(np.abs(samples) > 0.05 * np.abs(samples).max())
    piece = Piece(0, StreamConfig("measured", options))
    piece.append(samples, 0)
    piece.voice(int(voice[0]), int(voice[-1]) + 1)

    async def ask(request: FinalRequest) -> Transcript:
        return decode(request)

    return asyncio.run(final(piece, samples, ask, None, ())).text


def full_window(backend: WhisperBackend, samples: Samples, options: DecodeOptions) -> tuple[Any, float]:
    """As every Whisper server does it: all 1,500 frames through the encoder. (transcript, encoder CPU seconds)."""
    job = backend.open(FinalRequest(samples, options))
    encoder = backend._encoder
    mel = LogMel(backend._bank)
    mel.extend(samples)
    job.frames = FRAMES

    def encode() -> None:
        job.encoding = Encoding(encoder.stem(mel.window(0, 2 * FRAMES), 0, 0, FRAMES), 0, FRAMES, 0.0)
        encoder.run([job.encoding], encoder.layers - 1)

    with torch.inference_mode():
        took, _ = cpu(encode)
    more, result = cpu(lambda: backend.step([job])[0])
    while not isinstance(result, Done):
        if isinstance(result, Exception):
            raise result
        result = backend.step([job])[0]
    return result.output, took + more


def incremental(backend: WhisperBackend, samples: Samples, options: DecodeOptions) -> tuple[str, float]:
    """A partial every second, caches kept, nothing forced; the last one's text and the encoder's CPU seconds of all."""
    utterance, spent, text = Utterance(), 0.0, ""
    for end in [*range(SAMPLE_RATE, len(samples), SAMPLE_RATE), len(samples)]:
        utterance.append(samples[utterance.length : end])
        answer, encode, _ = run(backend, PartialRequest(utterance, end, (), options))
        spent += encode
        text = "".join(piece for piece, _ in answer.pieces)
    return text, spent


def clips(language: str, count: int) -> list[corpora.Clip]:
    """The bundled recordings (English) and as many prompts as are wanted."""
    out = list(corpora.bundled()) if language == "en" else []
    known = {c.path.name for c in out}
    out += [c for c in corpora.prompts(language) if c.path.name not in known]
    step = max(1, len(out) // count)
    return out[::step][:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny.en", help="a bundled model, or the path of a CTranslate2 folder")
    parser.add_argument("--language", default="en", choices=corpora.LANGUAGES)
    parser.add_argument("--clips", type=int, default=200, help="how many recordings")
    parser.add_argument("--encoder", default="float32", help="precision of the encoder")
    parser.add_argument("--decoder", default="float32", help="precision of the decoder")
    parser.add_argument("--probes", type=int, help="probes of the padding in finals (default: as the service does)")
    parser.add_argument("--as-served", action="store_true", help="languages that need the whole window get it")
    parser.add_argument("--no-partials", action="store_true", help="skip the incremental rows (quicker)")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    folder = resolve(args.model).directory
    checkpoint = weights.load(folder)
    probes = args.probes if args.probes is not None else PROVEN_PROBES.get(args.model, 0)
    reference = WhisperBackend(args.model, checkpoint, folder, Precision())
    reference.load("cpu")
    whole = WHOLE_WINDOW.get(args.model, frozenset()) if args.as_served else frozenset()
    backend = WhisperBackend(args.model, checkpoint, folder, Precision(args.encoder, args.decoder), probes, whole)
    backend.load("cpu")
    normal = EnglishTextNormalizer() if args.language == "en" else BasicTextNormalizer()
    options, greedy = DecodeOptions(language=args.language), DecodeOptions(language=args.language, temperatures=(0.0,))
    chosen = clips(args.language, args.clips)
    ways: dict[str, Decode] = {
        "full window": lambda request: full_window(reference, request.samples, request.options),
        "frozen padding": lambda request: run(backend, request)[:2],
    }
    rows = {name: Row() for name in ways}
    if not args.no_partials:
        rows["incremental (all partials)"] = Row()
    references, total = [], 0.0
    for clip in track(chosen, description="recordings"):
        samples = decode_audio(str(clip.path), sampling_rate=SAMPLE_RATE)
        total += len(samples) / SAMPLE_RATE
        references.append(normal(clip.text))
        for name, decode in ways.items():
            row = rows[name]

            def counted(request: FinalRequest, row: Row = row, decode: Decode = decode) -> Transcript:
                answer, took = decode(request)
                row.seconds += took
                return answer

            row.texts.append(normal(served(samples, options, counted)).strip())
        if not args.no_partials:
            text, took = incremental(backend, samples, greedy)
            rows["incremental (all partials)"].texts.append(normal(text).strip())
            rows["incremental (all partials)"].seconds += took
    table = Table(
        title=f"{args.model}, {args.language}, {len(chosen)} recordings, {total:.0f} s; full window in "
        f"float32, the others {args.encoder}/{args.decoder}"
    )
    for name in ("encoder", "word error rate", "same text", "CPU s per audio s"):
        table.add_column(name, justify="left" if name == "encoder" else "right")
    exact = rows["full window"]
    for name, row in rows.items():
        same = np.mean([a == b for a, b in zip(row.texts, exact.texts, strict=True)])
        error = jiwer.wer(references, row.texts)
        table.add_row(name, f"{100 * error:.2f} %", f"{100 * same:.1f} %", f"{row.seconds / total:.3f}")
    console = Console(width=110)
    console.print(table)
    for a, b in zip(exact.texts, rows["frozen padding"].texts, strict=True):
        if a != b:
            console.print(f"  [dim]{a}\n  → {b}[/dim]", highlight=False)
    partial_costs(backend, reference, folder, chosen, console)


def partial_costs(
    backend: WhisperBackend, reference: WhisperBackend, folder: Any, chosen: list[corpora.Clip], console: Console
) -> None:
    """A partial's encoder cost at seconds 2 and 20, and a whole partial beside the full window and CTranslate2."""
    pieces = [decode_audio(str(c.path), sampling_rate=SAMPLE_RATE) for c in chosen[:12]]
    speech = np.concatenate(pieces)[: 24 * SAMPLE_RATE]
    options = DecodeOptions(language="en", temperatures=(0.0,))
    at: dict[int, list[float]] = {2: [], 20: []}
    whole: list[float] = []
    for _ in range(5):
        utterance, stable = Utterance(), tuple[int, ...]()
        for second in range(1, 25):
            utterance.append(speech[utterance.length : second * SAMPLE_RATE])
            answer, encode, decode = run(backend, PartialRequest(utterance, second * SAMPLE_RATE, stable, options))
            stable = (*stable, *answer.tokens[: max(0, len(answer.tokens) - 4)])
            if second in at:
                at[second].append(encode)
            whole.append(encode + decode)
    model = WhisperModel(str(folder), device="cpu", compute_type="int8_float32", cpu_threads=1)
    features = model.feature_extractor(speech[: 7 * SAMPLE_RATE])
    features = np.pad(features, ((0, 0), (0, 3000 - features.shape[1])), constant_values=float(features.min()))
    prompt = [*model.hf_tokenizer.encode("<|startoftranscript|>", add_special_tokens=False).ids]
    if model.model.is_multilingual:
        prompt += [model.hf_tokenizer.token_to_id("<|en|>"), model.hf_tokenizer.token_to_id("<|transcribe|>")]
    prompt.append(model.hf_tokenizer.token_to_id("<|notimestamps|>"))

    def other() -> Any:
        states = model.encode(features)
        return model.model.generate(ctranslate2.StorageView.from_array(np.array(states)), [prompt], beam_size=1)

    peer = np.median([cpu(other)[0] for _ in range(5)])
    early, late = np.median(at[2]), np.median(at[20])
    console.print(
        f"a partial's encoder at second 2: {1000 * early:.0f} ms, at second 20: {1000 * late:.0f} ms "
        f"({late / early:.2f}×)"
    )
    console.print(
        f"a whole partial: {1000 * np.median(whole):.0f} ms; full window + CTranslate2 generate: "
        f"{1000 * peer:.0f} ms; ratio {np.median(whole) / peer:.3f}"
    )


if __name__ == "__main__":
    main()
