"""Metrics of devices and voices, read from the engine when somebody scrapes, so that nothing has to keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from speech.engine import DeviceStatus, Engine, EngineStatus


class DeviceMetrics(Collector):
    """What `engine` tells, once there is one."""

    def __init__(self, engine: Callable[[], Engine | None]) -> None:
        self._engine = engine

    def collect(self) -> Iterable[Metric]:
        engine = self._engine()
        status = engine.status() if engine is not None else None
        ready = GaugeMetricFamily("speechlane_ready", "1 when the models are loaded and every device lives.")
        ready.add_metric([], float(status is not None and status.ready))
        return [ready, *_speech(status), *_streams(status), *_work(status), *_backends(status)]

    def describe(self) -> Iterable[Metric]:
        return []


def _speech(status: EngineStatus | None) -> list[Metric]:
    speakers = GaugeMetricFamily("speechlane_speakers", "Streams of speech now.")
    free = GaugeMetricFamily("speechlane_free_speakers", "Live listeners that would still be taken.")
    made = CounterMetricFamily("speechlane_speech_made_seconds", "Sound that voices made.")
    wasted = CounterMetricFamily("speechlane_wasted_audio_seconds", "Sound of it that nobody heard.")
    if status is not None:
        speakers.add_metric([], status.speech.speaking)
        free.add_metric([], status.speech.free)
        made.add_metric([], status.speech.made)
        wasted.add_metric([], status.speech.wasted)
    return [speakers, free, made, wasted]


def _streams(status: EngineStatus | None) -> list[Metric]:
    """Of the devices that live streams are admitted to, and of the models on them."""
    by = ["device"]
    reserved = GaugeMetricFamily("speechlane_device_reserved", "Share of step time promised to sessions.", labels=by)
    streams = GaugeMetricFamily("speechlane_device_streams", "Live streams on the device.", labels=by)
    free = GaugeMetricFamily("speechlane_device_free_streams", "Streams it would still take.", labels=by)
    carried = GaugeMetricFamily(
        "speechlane_carried_streams", "Streams of a model alone that fit.", labels=["device", "model", "basis"]
    )
    for device in status.devices if status is not None else ():
        reserved.add_metric([device.name], device.reserved)
        streams.add_metric([device.name], device.streams)
        free.add_metric([device.name], device.free_streams)
    for one in status.carried if status is not None else ():
        carried.add_metric([one.device, one.model, one.basis], one.streams)
    return [reserved, streams, free, carried]


def _work(status: EngineStatus | None) -> list[Metric]:
    by = ["device"]
    utilisation = GaugeMetricFamily(
        "speechlane_device_utilisation", "Share of time that the device spent in steps.", labels=by
    )
    queue = GaugeMetricFamily("speechlane_queue_tasks", "Tasks waiting.", labels=["device", "lane"])
    resident = GaugeMetricFamily(
        "speechlane_device_resident_bytes", "Memory of models and tasks by their own account.", labels=by
    )
    restarts = CounterMetricFamily(
        "speechlane_device_restarts", "Times a device was restarted after a step that hung or failed.", labels=by
    )
    for device in _all(status):
        utilisation.add_metric([device.name], device.utilisation)
        resident.add_metric([device.name], device.resident_bytes)
        restarts.add_metric([device.name], device.restarts)
        for lane, count in device.queue.items():
            queue.add_metric([device.name, lane_name(lane)], count)
    return [utilisation, queue, resident, restarts]


def _backends(status: EngineStatus | None) -> list[Metric]:
    by = ["device", "model"]
    steps = CounterMetricFamily("speechlane_steps", "Steps, each a batch.", labels=by)
    items = CounterMetricFamily("speechlane_step_items", "Tasks in the steps.", labels=by)
    seconds = CounterMetricFamily("speechlane_step_seconds", "Time that the steps took.", labels=by)
    for device in _all(status):
        for model, use in device.backends.items():
            steps.add_metric([device.name, model], use.steps)
            items.add_metric([device.name, model], use.items)
            seconds.add_metric([device.name, model], use.step_seconds)
    return [steps, items, seconds]


def _all(status: EngineStatus | None) -> tuple[DeviceStatus, ...]:
    return (*status.devices, *status.apart) if status is not None else ()


def lane_name(lane: object) -> str:
    """A lane as a label: "final", "partial", "interactive", "bulk"."""
    return str(getattr(lane, "name", lane)).lower()
