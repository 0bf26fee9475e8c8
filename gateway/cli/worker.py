"""`speechlane worker`: takes tasks of jobs from a queue, on this host, until a signal comes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from gateway.cli import lane_options as asked
from gateway.cli.console import Voice, fail
from gateway.cli.job_access import opened
from gateway.cli.job_tables import outcome

if TYPE_CHECKING:
    from batch_jobs.jobs import Jobs
    from batch_jobs.queue.changes import Changes
    from speech.engine import EngineSettings

log = logging.getLogger("speechlane.worker")

HELP = """Work on jobs, until SIGTERM or Ctrl-C: then what is in hand goes to other workers, and the exit code is 0.

Any number of workers share a queue, on this host or on others. Workers on other hosts need a queue and a spool that
they reach. A worker that dies loses nothing: others begin its pieces again within 15 seconds.

Examples:

  speechlane worker

  speechlane worker --model base --concurrency 16 --device cuda

  SPEECHLANE_REDIS_URL=rediss://:PASSWORD@queue.example.org SPEECHLANE_SPOOL_URL=s3://speech/spool speechlane worker
"""

CONCURRENCY = 16
FORMS = ("auto", "json", "text")
Form = Literal["auto", "json", "text"]
LEVELS = ("debug", "info", "warning", "error")


def command(
    model: Annotated[
        str | None,
        typer.Option("--model", "--models", help="Models to load, separated by commas. [tiny.en; SPEECHLANE_MODELS]"),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="Where models run: cpu, cuda:0; cuda takes every GPU. [cpu; SPEECHLANE_DEVICE]"),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads. [SPEECHLANE_THREADS]", min=1)] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(help="Pieces transcribed at once. [16; SPEECHLANE_BATCH_CONCURRENCY]", min=1, max=256),
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch models that are not here from the hub.")] = False,
    redis_url: asked.RedisUrl = None,
    spool_url: asked.SpoolUrl = None,
    batch_dir: asked.BatchDir = None,
    config: asked.Config = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_format: Annotated[
        str | None, typer.Option(help="json, text, or auto: text on a terminal, else json. [SPEECHLANE_LOG_FORMAT]")
    ] = None,
) -> None:
    if log_level not in LEVELS:
        fail(f"--log-level is {log_level}; there is {', '.join(LEVELS)}", 2)
    form = log_format or str(asked.setting("log_format", None, config) or "auto")
    if form not in FORMS:
        fail(f"--log-format is {form}; there is {', '.join(FORMS)}", 2)
    settings = asked.batch_settings(redis_url, spool_url, batch_dir, config)
    voice = Voice(log_level, cast("Form", form))
    models = asked.setting("models", model, config) or "tiny.en"
    names = models.split(",") if isinstance(models, str) else models if isinstance(models, list) else []
    where = str(asked.setting("device", device, config) or "cpu")
    pieces, cores = (
        _number(name, flag, config) for name, flag in (("batch_concurrency", concurrency), ("threads", threads))
    )
    # Imported late so that --help and wrong arguments answer at once.
    from speech import tuned
    from speech.engine import EngineSettings
    from speech.models import ModelError

    models = tuple(dict.fromkeys(str(name).strip() for name in names))
    engine = EngineSettings(models, where, cores, download=download, voices=(), tuned=tuned.found)
    with opened(settings) as jobs:
        # Loaded at once, what others of this queue began with need not be loaded as well.
        engine = replace(engine, precisions=jobs.queue.precisions(engine.kind))
        queue = asked.shown_url(settings.redis_url) if settings.redis_url else f"the queue in {settings.directory}"
        voice.say(f"Loading {', '.join(engine.models)} on {where} for {queue}.")
        try:
            asyncio.run(_work(jobs, engine, pieces or CONCURRENCY, voice))
        except (ModelError, ValueError) as error:  # a ValueError is a device that is not there, or weights of no use
            voice.fail(f"{error}\n'speechlane doctor' checks what the models need.")
    voice.say("Stopped.")
    # All is closed. Taking the interpreter down under native threads that are still ending has crashed it.
    logging.shutdown()
    sys.stderr.flush()
    os._exit(0)


def _number(name: str, flag: int | None, config: Path | None) -> int | None:
    value = asked.setting(name, flag, config)
    try:
        return int(str(value)) if value is not None else None
    except ValueError:
        fail(f"{name}: it must be a number", 2)


async def _work(jobs: Jobs, settings: EngineSettings, concurrency: int, voice: Voice) -> None:
    from batch_jobs.worker import Worker
    from speech.engine import Engine

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    starting = asyncio.create_task(Engine.start(settings))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        voice.say("Stopped before the models were loaded.")
        await asyncio.to_thread(jobs.close)
        os._exit(0)  # the thread that loads cannot be interrupted, and nothing is lost with it
    engine = starting.result()
    ending = threading.Event()
    threading.Thread(target=_log_ends, args=(jobs, ending), daemon=True, name="job ends").start()
    try:
        voice.say(f"Ready: {concurrency} pieces at once. Stop with Ctrl-C; what is in hand goes to others.")
        await Worker(jobs, engine, concurrency).run(stop)
    finally:
        stopping.cancel()
        ending.set()
        await engine.close()


def _log_ends(jobs: Jobs, ending: threading.Event) -> None:
    """A line for each job of the queue that ends, whoever has worked on it."""
    from redis.exceptions import RedisError

    told: deque[tuple[str, float | None]] = deque(maxlen=1000)
    while not ending.is_set():
        try:
            with jobs.changes() as changes:
                while not ending.is_set():
                    for job in map(jobs.queue.job, _changed(changes)):
                        if job is not None and job.state.ended and (job.id, job.ended) not in told:
                            told.append((job.id, job.ended))
                            log.info("job %s: %s", job.id, outcome(job), extra={"job": job.id})
        except RedisError as error:
            if not ending.wait(1.0):
                log.warning("the queue sends no news of jobs, asking again: %s", error)
        except ValueError:  # the connection was closed under us
            return


def _changed(changes: Changes) -> set[str]:
    """The jobs that changed within a second of the first one."""
    ids: set[str] = set()
    until = time.monotonic() + 1.0
    while (left := until - time.monotonic()) > 0 and (id := changes.get(left)) is not None:
        ids.add(id)
    return ids
