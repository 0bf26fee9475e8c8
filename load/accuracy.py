"""Are live finals as good as the same model offline, and do stable words stay as they were?

Speaks the Austen sentences of the repository and 40 telephone prompts (Debian's asterisk-core-sounds-en-wav, fetched
once into the cache) to the service, as live streams with its own turn detection, and has faster-whisper transcribe the
same recordings offline (tiny.en, float32, beam 1). Word error rates after Whisper's English normaliser.

Bars: live at most 1.5 points behind offline; at most 2 % of the stable words differ from the final, after the same
normaliser; in every recording with more than 3 s of voice the first stable word comes before the voice ends; exactly
one final for each commit, in order, with no delta behind it. Exit status 1 when one is missed.

A service is started for the measurement unless --url names one. With --speed over 1 the audio comes faster than
anybody speaks, which a device that is not fast enough answers by skipping partials.

    python -m load.accuracy
    python -m load.accuracy --clips 8 --streams 1 --json accuracy.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from faster_whisper import WhisperModel

from load import corpora, report
from load.client import Heard, stream
from load.scoring import Utterance, by_line, normal, taken_back, utterances, word_errors
from load.script import Line, compose
from load.service import Running, machine, service
from speech.models import resolve

_NAMES = """
all-circuits-busy-now auth-incorrect conf-noempty conf-onlyone conf-otherinparty conf-roll-callcomplete
confbridge-has-left confbridge-leave-in confbridge-lock-out confbridge-locked confbridge-mute-out
confbridge-participants confbridge-removed demo-moreinfo demo-nogo demo-thanks dir-nomatch enter-num-blacklist
pbx-invalid pm-invalid-option privacy-to-blacklist-last-caller screen-callee-options to-listen-to-it transfer
tt-allbusy tt-monkeysintro tt-somethingwrong unidentified-no-callback vm-changeto vm-leavemsg vm-newpassword
vm-nobodyavail vm-opts vm-passchanged vm-prev vm-reachoper vm-rec-busy vm-tempremoved vm-tmpexists vm-tomakecall
"""
PROMPTS = _NAMES.split()
LONG = 3.0
"""Seconds of voice from which on the first stable word must come before the end."""


@dataclass(frozen=True, slots=True)
class Result:
    """One recording. `early`: seconds from its first stable word to the end of its voice; None without one."""

    name: str
    text: str
    live: str
    offline: str
    voice: float
    stable: int
    changed: int
    spelled: int
    """Stable words that the final spells otherwise: as `changed`, but "one" and "1" are two."""
    early: float | None


def recordings() -> list[corpora.Clip]:
    """The Austen sentences, then the prompts; raises SystemExit when a prompt is missing."""
    clips = [clip for clip in corpora.bundled() if clip.path.name.startswith("austen-")]
    prompts = {clip.path.stem: clip for clip in corpora.prompts("en", shortest=0.0, longest=60.0)}
    if missing := [name for name in PROMPTS if name not in prompts]:
        raise SystemExit(f"these prompts are not in Debian's package: {', '.join(missing)}")
    return clips + [prompts[name] for name in PROMPTS]


def offline(clips: Sequence[corpora.Clip]) -> list[str]:
    """What faster-whisper makes of each recording."""
    model = WhisperModel(str(resolve("tiny.en").directory), device="cpu", compute_type="float32", cpu_threads=1)
    texts = []
    for clip in clips:
        segments, _ = model.transcribe(str(clip.path), language="en", beam_size=1)
        texts.append("".join(segment.text for segment in segments).strip())
    return texts


async def live(
    running: Running, clips: Sequence[corpora.Clip], streams: int, speed: float, key: str | None
) -> tuple[dict[Path, tuple[Line, list[Utterance], Heard]], list[str]]:
    """Speak all recordings over `streams` streams at once: what was made of each, and the broken promises."""
    scripts = [compose(clips[number::streams], rate=16_000) for number in range(streams) if clips[number::streams]]
    found: dict[Path, tuple[Line, list[Utterance], Heard]] = {}
    broken: list[str] = []
    streaming = (stream(running.url, script, frame=0.1, speed=speed, key=key) for script in scripts)
    for heard in await asyncio.gather(*streaming):
        said, problems = utterances(heard)
        broken += problems
        for line, parts in by_line(heard, said):
            found[line.clip.path] = (line, parts, heard)
    return found, broken


def result(clip: corpora.Clip, line: Line, parts: Sequence[Utterance], heard: Heard, reference: str) -> Result:
    counts = [taken_back(normal(one.stable), normal(one.text or "")) for one in parts]
    spelled = sum(taken_back(one.stable, one.text or "")[0] for one in parts)
    words = [at for one in parts for at, _ in one.deltas]
    return Result(
        name=clip.path.stem,
        text=clip.text,
        live=" ".join(one.text or "" for one in parts).strip(),
        offline=reference,
        voice=round(line.voice_end - line.voice_start, 2),
        stable=sum(stable for _, stable in counts),
        changed=sum(changed for changed, _ in counts),
        spelled=spelled,
        early=round(heard.sent_at(line.voice_end) - min(words), 3) if words else None,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="service to measure, http://host:port (default: start one)")
    parser.add_argument("--key", help="its API key")
    parser.add_argument("--flags", default="", help="flags for the service that is started, in quotes")
    parser.add_argument("--streams", type=int, default=2, help="streams at once (default %(default)s)")
    parser.add_argument("--speed", type=float, default=1.0, help="times real time (default %(default)g)")
    parser.add_argument("--clips", type=int, help="only so many recordings, spread over all (default: all)")
    parser.add_argument("--points", type=float, default=1.5, help="bar of the word error rates' difference")
    parser.add_argument("--changed", type=float, default=2.0, help="bar of stable words that differ, in percent")
    parser.add_argument("--json", type=Path, help="write every recording's result here")
    options = parser.parse_args()
    out, note, clips = report.console(), machine(), recordings()
    if options.clips:
        clips = clips[:: max(1, len(clips) // options.clips)][: options.clips]
    with service(options.url, shlex.split(options.flags)) as running, out.status(f"{len(clips)} recordings live"):
        found, missed = asyncio.run(live(running, clips, options.streams, options.speed, options.key))
    with out.status("the same offline"):
        references = offline(clips)
    results = [result(clip, *found[clip.path], text) for clip, text in zip(clips, references, strict=True)]
    ours = word_errors((one.text, one.live) for one in results)
    theirs = word_errors((one.text, one.offline) for one in results)
    stable, changed = sum(one.stable for one in results), sum(one.changed for one in results)
    share = 100 * changed / stable if stable else 0.0
    long = [one for one in results if one.voice > LONG]
    late = [one for one in long if one.early is None or one.early <= 0]
    rows = [
        ("word error rate of live finals", f"{ours:.2f} %", ""),
        ("word error rate of faster-whisper offline", f"{theirs:.2f} %", ""),
        ("difference", f"{ours - theirs:+.2f} points", f"<= {options.points:g}"),
        (
            "stable words that differ from the final",
            f"{changed} of {stable}, {share:.2f} %",
            f"<= {options.changed:g} %",
        ),
        ("the same as spelled (one and 1 differ)", f"{sum(one.spelled for one in results)} of {stable}", ""),
        ("first stable word before the end, over 3 s of voice", f"{len(long) - len(late)} of {len(long)}", "all"),
        ("broken promises of the protocol", str(len(missed)), "0"),
    ]
    out.print(note, highlight=False, style="dim")
    out.print(report.table(f"{len(results)} recordings, {options.streams} streams", ("what", "found", "bar"), rows))
    for one in results:
        if one.live.split() != one.offline.split() or one.changed:
            out.print(f"  [dim]{one.name}: {one.changed} of {one.stable} stable words changed[/]", highlight=False)
            out.print(f"    said     {one.text}\n    live     {one.live}\n    offline  {one.offline}", highlight=False,
                      markup=False)  # fmt: skip
    if options.json:
        told = {"machine": note, "live": ours, "offline": theirs, "stable": stable, "changed": changed,
                "recordings": [asdict(one) for one in results], "broken": missed}  # fmt: skip
        options.json.write_text(json.dumps(told, indent=1, ensure_ascii=False))
    if ours - theirs > options.points:
        missed.append(f"live finals are {ours - theirs:.2f} points behind offline")
    if share > options.changed:
        missed.append(f"{share:.2f} % of the stable words differ from the final")
    missed += [
        f"{one.name}: no stable word" if one.early is None else f"{one.name}: first stable word {-one.early:.2f} s late"
        for one in late
    ]
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
