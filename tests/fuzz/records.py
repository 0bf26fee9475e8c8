"""What is read back from files and Redis, and what an operator writes: damaged, of another version, or a mistake."""

from __future__ import annotations

import json
import math
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from batch_jobs import wire
from batch_jobs.job import Job, JobOptions, State
from batch_jobs.queue.record import decode_job, encode_job
from batch_jobs.queue.task import Kind, Task
from batch_jobs.repair.plan import RepairTask
from batch_jobs.split import Part, SplitReport
from batch_jobs.stages import Draft
from batch_jobs.transcript import Account, Chunk, ChunkResult, Hole, Repair, Run, Segment, Slice, Suspicion, Transcript
from gateway.batch.upload_store import Upload
from gateway.keys.record import made
from gateway.keys.store import FileKeys, StoreFailed
from gateway.settings import SettingsInvalid, load_settings
from speech.events import Word
from tests.fuzz.target import target, text_of

WORD = Word(" a", 0.0, 0.5, 0.9)
SEGMENT = Segment(0.0, 1.0, "a", (WORD,), 0, "en")
CHUNK = Chunk("c0-0000000000", 0, (Run(0, 16_000, (Slice("ab" * 32, 0, 16_000),)),), ((0, 8000),))
REPORT = SplitReport(1.0, 1.0, 1, "flac", (((0, 8000),),), ((Part(0, 16_000, "ab" * 32),),), (), ())
SUSPICION = Suspicion("rate", 0.0, 1.0, 0, 9.0, 5.0)
REPAIR = Repair(0.0, 1.0, 0, (SUSPICION,), (SEGMENT,), (SEGMENT,), 0.1, 0.2, True, "warmer")
RECORDS: tuple[Any, ...] = (
    CHUNK,
    ChunkResult((SEGMENT,), "en", 0.9),
    REPORT,
    SUSPICION,
    REPAIR,
    RepairTask(0.0, 1.0, 0, (SUSPICION,), (SEGMENT,), ((0, 8000),), 1),
    Draft((SEGMENT,), (SUSPICION,), (Hole(0.0, 1.0, 0, "x"),), "en"),
    Transcript((SEGMENT,), Account(1.0, 1.0, 0.5, 0.4), settings={"model": "tiny.en"}),
    JobOptions(webhook="https://hooks.example.com/done"),
    Upload("0" * 32, 7, "", "key-1"),
)
JOB = Job("j", "a.wav", JobOptions(), State.RUNNING, "ab" * 32, timings={"asr": 1.0}, precisions={"tiny.en cpu": "x"},
          warnings=("w",), expected=3.0, error="e")  # fmt: skip


@target("records", lambda: [wire.dump(record).encode() for record in RECORDS], kind="json")
def records(data: bytes) -> None:
    """A record is read as what it is or refused, and what was read is written so that it is read the same."""
    for record in RECORDS:
        kind = type(record)
        try:
            found = wire.load(kind, data)
        except ValueError:
            continue
        if not finite(asdict(found)):
            continue  # JSON has no such numbers, and the lane none
        text = wire.dump(found)
        assert wire.dump(wire.load(kind, text)) == text


def finite(value: Any) -> bool:
    """Whether all numbers in it are."""
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@target(
    "task", [*(f"{kind} {wire.dump(CHUNK)}" for kind in Kind), "chunk", ' {"dead":"x"}'], kind="text", words=[*Kind]
)
def task(data: bytes) -> None:
    text = text_of(data)
    try:
        found = Task.parse("job", "task", text)
    except ValueError:
        return
    assert Task.parse("job", "task", found.text) == found


@target("job_record", [json.dumps(encode_job(JOB))], kind="json")
def job_record(data: bytes) -> None:
    """A job is read from its hash, or it is said that it cannot be."""
    try:
        stored = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(stored, dict) or not all(isinstance(text, str) and is_utf8(text) for text in stored.values()):
        return
    try:
        wire.dump(decode_job("j", stored))
    except ValueError:
        return


def is_utf8(text: str) -> bool:
    """Whether it has no half of a surrogate pair, as nothing has that comes from Redis."""
    return text == text.encode("utf-8", "replace").decode()


RECORD = made("n")[1]


@target("keys_file", [f"[{RECORD.model_dump_json()}]"], kind="json", words=("limits", "sessions", "revoked", "scopes"))
def keys_file(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        store = FileKeys(Path(file.name))
        try:
            keys = store.read()
        except StoreFailed as error:
            assert RECORD.digest not in str(error)
            return
        for id, key in keys.items():
            assert key.id == id
            assert key.state(0.0) in ("valid", "expired", "revoked")
            bytes.fromhex(key.salt + key.digest)


TOML = (
    'host = "127.0.0.1"\nport = 8700\nmodels = ["tiny.en"]\napi_keys = "a,b"\nlog_level = "info"\nbatch = false\n',
    'webhook_hosts = ["private:ci.lan:8080"]\nwebhook_secret = "0123456789abcdef"\nassistant_url = "http://a/v1"\n'
    'assistant_model = "m"\ntrusted_proxies = "10.0.0.2"\nallowed_origins = ["https://app.example.com"]\n',
    'wyoming_port = 10200\nwyoming_open = true\nredis_url = "redis://x"\nsession_seconds = 60.5\nvoices = ""\n',
)
SECRET = "0123456789abcdef"
SIGNS = ("=", '"', "[", "]", "\n", "nan", "inf", "-1", "1e400", "'''", "[a]", "{a=1}", "a.b")


@target("settings", TOML, kind="text", words=SIGNS, examples=40)
def settings(data: bytes) -> None:
    """A file of settings, and the same as variables: taken, or refused without a value in the message."""
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(data)
        file.flush()
        _load(data, config=file.name)
    variables = {
        name.strip(): value.strip().strip('"')
        for name, equals, value in (line.partition("=") for line in data.decode("utf-8", "replace").splitlines())
        if equals and name.strip().isidentifier() and name.strip().isascii() and "\0" not in value
    }
    given = {f"SPEECHLANE_{name.upper()}": value for name, value in variables.items() if name != "config"}
    before = dict(os.environ)
    os.environ.update(given)
    try:
        _load(data)
    finally:
        for name in given.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _load(data: bytes, **flags: Any) -> None:
    try:
        loaded = load_settings(**flags)
    except SettingsInvalid as error:
        # Where it is no secret but a host, it may be told.
        named = any(line.startswith(f'webhook_secret = "{SECRET}"'.encode()) for line in data.split(b"\n"))
        secret = named and data.count(SECRET.encode()) == 1
        assert not secret or SECRET not in str(error)
        return
    assert loaded.session_seconds > 0
