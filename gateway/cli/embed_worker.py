"""`speechlane embed-worker`: embeds batches of `speechlane embed --workers`, on this host, until a signal comes."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import collection_options as asked
from gateway.cli import lane_options as lane
from gateway.cli.console import Voice

if TYPE_CHECKING:
    from batch_jobs.settings import BatchSettings

HELP = """Embed for `speechlane embed --workers`, until SIGTERM or Ctrl-C: then what is in hand goes to others.

Any number of workers share the work, on this host or on others that reach the same queue and spool. A worker that dies
loses nothing: others begin its batches again within 15 seconds.

Examples:

  speechlane embed-worker

  SPEECHLANE_REDIS_URL=rediss://queue.example.org SPEECHLANE_SPOOL_URL=s3://texts/spool speechlane embed-worker --device cuda:0
"""  # noqa: E501


def command(
    model: Annotated[str, typer.Option(help="Embedding model: a name, a path, a hub name.")] = asked.DEFAULT_MODEL,
    device: asked.Device = "cpu",
    threads: asked.Threads = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch a model that is not here from the hub.")] = False,
    redis_url: lane.RedisUrl = None,
    spool_url: lane.SpoolUrl = None,
    batch_dir: lane.BatchDir = None,
    config: asked.Config = None,
) -> None:
    settings = lane.batch_settings(redis_url, spool_url, batch_dir, config)
    voice = Voice("info", "auto")
    with asked.told():
        asyncio.run(_work(settings, model, device, threads, download, voice))
    voice.say("Stopped.")


async def _work(
    settings: BatchSettings, model: str, device: str, threads: int | None, download: bool, voice: Voice
) -> None:
    # Imported late so that --help and wrong arguments answer at once.
    from batch_jobs.embedding.worker import EmbedWorker
    from batch_jobs.queue.server import connect
    from batch_jobs.spool import Spool
    from gateway.cli.embedding import loaded
    from vision_text.embeddings.embedder import EmbeddingSettings

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = await asyncio.to_thread(connect, settings)
    try:
        spool = await asyncio.to_thread(Spool, settings.spool_url or settings.directory / "spool", settings.spool_bytes)
        chosen = EmbeddingSettings(models=(model,), threads=threads, download=download)
        voice.say(f"Loading {model} on {device} for {server.url}.")
        async with loaded(chosen, device) as embedder:
            voice.say("Ready. Stop with Ctrl-C; what is in hand goes to others.")
            worker = EmbedWorker(server.redis, spool, embedder, lease=settings.lease, deliveries=settings.deliveries)
            await worker.run(stop)
    finally:
        await asyncio.to_thread(server.close)
