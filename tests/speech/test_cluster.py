"""Real speech on a real cluster: the host of a live stream dies while somebody speaks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest
from whisper_normalizer.english import EnglishTextNormalizer

from speech.asr import SAMPLE_RATE
from speech.config import StreamConfig
from speech.engine import Engine, EngineSettings
from speech.events import Committed, Event, Failed, Final, Partial
from speech.transcriber import Transcriber
from tests.speech.sounds import joined, recording, silence

pytest.importorskip("ray", reason="Ray is not installed: pip install 'speechlane[cluster]'")
pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

WORDS = EnglishTextNormalizer()
SAID = Path(__file__).parents[1] / "data" / "references.tsv"
NAMES = ("austen-0870.wav", "austen-0880.wav", "austen-0920.wav", "austen-0930.wav")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    cluster.add_node(num_cpus=0, resources={"speech": 1})
    cluster.add_node(num_cpus=0, resources={"speech": 1})
    yield cluster
    import ray

    ray.shutdown()
    cluster.shutdown()


def sound() -> Any:
    return joined(*(part for name in NAMES for part in (recording(name), silence(0.9))))


async def speak(stream: Transcriber, samples: Any) -> None:
    """At the speed of speech."""
    loop = asyncio.get_running_loop()
    began, step = loop.time(), SAMPLE_RATE // 10
    for first in range(0, len(samples), step):
        await asyncio.sleep(max(0.0, began + first / SAMPLE_RATE - loop.time()))
        await stream.append(samples[first : first + step])
    await stream.finish()


async def hear(stream: Transcriber) -> list[Event]:
    return [event async for event in stream.events()]


async def test_the_host_of_live_streams_dies_and_every_utterance_ends_once(cluster: Any) -> None:
    settings = EngineSettings(threads=1, voices=(), cluster=cluster.address, cluster_resources="speech=1")
    engine = await Engine.start(settings)
    try:
        assert not engine.devices[0].models, "nothing of speech is loaded here"
        for _ in range(600):
            if sum(device.ready for device in engine.far) == 2:
                break
            await asyncio.sleep(0.1)
        far = list(engine.far)
        assert [device.ready for device in far] == [True, True] and engine.status().ready
        streams = [engine.open_stream(StreamConfig("tiny.en")) for _ in range(2)]
        heard = [asyncio.create_task(hear(stream)) for stream in streams]
        said = [asyncio.create_task(speak(stream, sound())) for stream in streams]
        await asyncio.sleep(3.0)
        before = {device.name: device.stats().steps for device in far}
        assert all(before.values()), "both devices work"
        free = sum(status.free_streams for status in engine.status().devices)
        dies = far[0]
        node = next(node for node in cluster.worker_nodes if node.node_id[:8] in dies.node)
        await asyncio.to_thread(cluster.remove_node, node, False)
        await asyncio.sleep(0.5)
        for _ in range(100):
            if not dies.ready:
                break
            await asyncio.sleep(0.1)
        assert not dies.ready and engine.status().ready, "one is enough to be ready"
        assert sum(status.free_streams for status in engine.status().devices) < free
        await asyncio.gather(*said)
        wanted = dict(line.split("\t") for line in SAID.read_text().splitlines())
        for events in await asyncio.gather(*heard):
            committed = [event.utterance for event in events if isinstance(event, Committed)]
            ends = [event for event in events if isinstance(event, Final | Failed)]
            assert [end.utterance for end in ends] == committed, "each exactly once, in order"
            assert not [end for end in ends if isinstance(end, Failed)]
            text = " ".join(end.text for end in ends if isinstance(end, Final))
            spoken = " ".join(wanted[name] for name in NAMES)
            assert jiwer.wer(WORDS(spoken), WORDS(text)) < 0.12
            assert any(isinstance(event, Partial) for event in events)
        cluster.add_node(num_cpus=0, resources={"speech": 1})
        for _ in range(900):
            if dies.ready:
                break
            await asyncio.sleep(0.1)
        assert dies.ready, "it came back on the new host"
        stream = engine.open_stream(StreamConfig("tiny.en"))
        listening = asyncio.create_task(hear(stream))
        await stream.append(np.asarray(recording("austen-0880.wav")))
        await stream.finish()
        assert any(isinstance(event, Final) for event in await listening)
    finally:
        await engine.close()
