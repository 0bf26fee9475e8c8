"""What the service counts and measures, in Prometheus' terms. One registry per application.

Handlers call the methods that say what happened; gauges of devices are read from the engine when somebody scrapes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from gateway.device_metrics import DeviceMetrics, lane_name
from gateway.keys.budget import count_audio
from gateway.shared.metrics import SharedMetrics
from gateway.telemetry.sessions import SESSION
from gateway.vision.metrics import VisionMetrics

if TYPE_CHECKING:
    from gateway.telemetry.traces import Traces
    from speech.engine import Engine

# No series for the birth of each other series, which nobody looks at.
disable_created_metrics()  # type: ignore[no-untyped-call]

LATENCY_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
REQUEST_BUCKETS = (0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0)
JOB_BUCKETS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
LAG_PERIOD = 0.05


class Metrics:
    """Counters and histograms of one application. All times in seconds."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.traces: Traces | None = None
        """Where spans go; None: nobody wants any."""
        self.transcripts = False
        """Whether lines of the log may hold what was said."""
        self._sessions = Gauge("speechlane_sessions", "Live sessions now.", ["protocol"], registry=registry)
        self._admitted = Counter("speechlane_sessions_admitted", "Sessions taken.", registry=registry)
        self._sessions_ended = Counter(
            "speechlane_sessions_ended", "Sessions that ended, by how.", ["code"], registry=registry
        )
        self._parked = Gauge("speechlane_sessions_parked", "Live sessions whose connection broke.", registry=registry)
        self._resumed = Counter("speechlane_sessions_resumed", "Connections that took a session up.", registry=registry)
        self.shared = SharedMetrics(registry)
        """What several gateways keep in one Redis."""
        self._refused = Counter("speechlane_refused", "Work refused.", ["kind", "reason"], registry=registry)
        self._utterances = Counter("speechlane_utterances", "Utterances ended.", ["outcome"], registry=registry)
        self._phases = Histogram(
            "speechlane_utterance_phase_seconds",
            "Parts of the way to a final.",
            ["phase"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self._lagging = Counter("speechlane_lagging", "Times a stream began to run behind.", registry=registry)
        audio = Counter("speechlane_audio_seconds", "Audio received.", ["kind"], registry=registry)
        # Looking a label up takes longer than anything else that is counted for every frame.
        self._audio_of = {kind: audio.labels(kind) for kind in ("live", "file")}
        self._files = Gauge("speechlane_files", "Uploaded files being transcribed now.", registry=registry)
        self._jobs = Gauge("speechlane_jobs", "Jobs that have not ended.", ["state"], registry=registry)
        self._jobs_ended = Counter("speechlane_jobs_ended", "Jobs that ended.", ["state"], registry=registry)
        self._job_audio = Counter(
            "speechlane_job_audio_seconds", "Audio of jobs transcribed, or found silent.", registry=registry
        )
        self._job_wait = Histogram(
            "speechlane_job_wait_seconds",
            "A job's submission to the beginning of work on it.",
            buckets=JOB_BUCKETS,
            registry=registry,
        )
        self._job_work = Histogram(
            "speechlane_job_work_seconds",
            "The beginning of work on a job to its end.",
            buckets=JOB_BUCKETS,
            registry=registry,
        )
        self._job_stages = Counter(
            "speechlane_job_stage_seconds", "Work on jobs that have ended.", ["stage"], registry=registry
        )
        self._webhooks = Counter("speechlane_webhooks", "Webhooks of jobs.", ["outcome"], registry=registry)
        self._embedded = Counter(
            "speechlane_embedded_inputs", "Texts and pictures embedded.", ["lane"], registry=registry
        )
        self._embedded_tokens = Counter("speechlane_embedded_tokens", "Their tokens.", ["lane"], registry=registry)
        self._embedding = Histogram(
            "speechlane_embedding_seconds",
            "A request for embeddings, from its body being there to its vectors.",
            ["lane"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self.vision = VisionMetrics(registry)
        """Chats, pictures, clips."""
        self._requests = Counter("speechlane_http_requests", "Answers.", ["route", "status"], registry=registry)
        self._request_seconds = Histogram(
            "speechlane_http_request_seconds",
            "Arrival of a request's head to its answer being made or, when streamed, sent; sockets do not count.",
            ["route"],
            buckets=REQUEST_BUCKETS,
            registry=registry,
        )
        self._chunk = Histogram(
            "speechlane_chunk_round_trip_seconds",
            "Arrival of the last audio a partial covers to the partial being sent.",
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self._final = Histogram(
            "speechlane_final_latency_seconds",
            "End of an utterance's audio to its final being sent.",
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self._responses = Counter("speechlane_responses", "Answers ended.", ["outcome"], registry=registry)
        self._interruptions = Counter(
            "speechlane_interruptions", "Times somebody spoke while spoken to.", ["kind"], registry=registry
        )
        self._turn = Histogram(
            "speechlane_turn_seconds",
            "End of a spoken question to the first sound of its answer, and the parts of it.",
            ["part"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self._speeches = Counter("speechlane_speeches", "Speeches that ended.", ["outcome"], registry=registry)
        self._speech = Counter(
            "speechlane_speech_sent_seconds", "Sound of speech handed to clients.", ["kind"], registry=registry
        )
        self._underruns = Counter(
            "speechlane_speech_underruns",
            "Sounds that a live listener had run dry before, by the clock and the client's reports.",
            registry=registry,
        )
        self._speech_tasks = Histogram(
            "speechlane_speech_task_seconds",
            "A plan or a window of speech, from being asked for to being there.",
            ["task"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self._first_sound = Histogram(
            "speechlane_speech_first_sound_seconds",
            "First text of a speech to its first sound being sent.",
            ["kind"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        ProcessCollector(registry=registry)
        self._lag = Histogram(
            "speechlane_event_loop_lag_seconds",
            "How late the event loop runs a timer.",
            buckets=LAG_BUCKETS,
            registry=registry,
        )
        self._tasks = Gauge("speechlane_event_loop_tasks", "Tasks of the event loop.", registry=registry)

    def session_started(self, protocol: str) -> None:
        """A live session was admitted."""
        self._sessions.labels(protocol).inc()
        self._admitted.inc()

    def session_ended(self, protocol: str) -> None:
        """A live session that was admitted has ended, in whatever way."""
        self._sessions.labels(protocol).dec()

    def session_closed(self, code: str) -> None:
        """A session is over: "left", "normal", "lost", "expired", "draining", "slow_reader", "overloaded", "failed"."""
        self._sessions_ended.labels(code).inc()

    def parked(self, count: int) -> None:
        """So many live sessions wait for their client to come back."""
        self._parked.set(count)

    def resumed(self) -> None:
        """A client has come back to its session."""
        self._resumed.inc()

    def refused(self, kind: str, reason: str) -> None:
        """A "session", "speech", "file" or "job" was turned away; `reason` is the error's code."""
        self._refused.labels(kind, reason).inc()

    def utterance(self, outcome: str) -> None:
        """An utterance ended: "final", "empty" (nothing was said) or "failed"."""
        self._utterances.labels(outcome).inc()
        if (session := SESSION.get()) is not None:
            session.utterances[outcome] += 1

    def audio(self, kind: str, seconds: float) -> None:
        """Audio came in, "live" or "file"; it counts for the key that it came with."""
        count_audio(seconds, live=kind == "live")
        if (session := SESSION.get()) is not None:
            session.audio += seconds
        self._audio_of[kind].inc(seconds)

    def chunk_round_trip(self, seconds: float) -> None:
        """A partial was sent so long after the audio it covers had arrived."""
        self._chunk.observe(seconds)

    def final_latency(self, seconds: float) -> None:
        """A final was sent so long after its utterance's audio had ended."""
        self._final.observe(seconds)
        if (session := SESSION.get()) is not None:
            session.slowest = max(session.slowest, seconds)

    def utterance_phase(self, phase: str, seconds: float) -> None:
        """A part of the way to a final: "hear", "queue", "encode", "decode" or "delivery"."""
        self._phases.labels(phase).observe(seconds)

    def lagging(self) -> None:
        """A stream has begun to run behind, so that its partials are skipped."""
        self._lagging.inc()

    def response(self, outcome: str) -> None:
        """An answer of a conversation ended: "completed", "cancelled", "failed" or "incomplete"."""
        self._responses.labels(outcome).inc()

    def interruption(self, kind: str) -> None:
        """Somebody spoke while they were spoken to: "real", or "false" when the answer went on."""
        self._interruptions.labels(kind).inc()

    def turn_part(self, part: str, seconds: float) -> None:
        """A part of the time from the end of a question to the first sound of its answer, or "total"."""
        self._turn.labels(part).observe(seconds)

    def file_started(self) -> None:
        """An uploaded file's transcription began."""
        self._files.inc()

    def file_ended(self) -> None:
        """An uploaded file's transcription ended, in whatever way."""
        self._files.dec()

    def speech_ended(self, outcome: str) -> None:
        """A speech is "done", or was "cancelled" or "failed"."""
        self._speeches.labels(outcome).inc()

    def speech_sent(self, kind: str, seconds: float) -> None:
        """So much more sound went to a "live" listener, or to a "file"."""
        self._speech.labels(kind).inc(seconds)
        if (session := SESSION.get()) is not None:
            session.sound += seconds

    def speech_task(self, task: str, seconds: float) -> None:
        """A "plan" or a "window" was there so long after it had been asked for."""
        self._speech_tasks.labels(task).observe(seconds)

    def first_sound(self, kind: str, seconds: float) -> None:
        """A speech had its first sound so long after its first text."""
        self._first_sound.labels(kind).observe(seconds)

    def underrun(self) -> None:
        """A listener had nothing to hear before the sound that was sent now."""
        self._underruns.inc()

    def jobs(self, state: str, count: int) -> None:
        """So many jobs are "queued", "running", "repairing" or "writing" now."""
        self._jobs.labels(state).set(count)

    def job_ended(self, state: str) -> None:
        """A job came to its end: "done", "partial", "failed" or "cancelled"."""
        self._jobs_ended.labels(state).inc()

    def job_spent(self, wait: float, work: float, stages: Mapping[str, float]) -> None:
        """A job that has ended waited so long and then took so long, with so many seconds of work by stage."""
        self._job_wait.observe(wait)
        self._job_work.observe(work)
        for stage, seconds in stages.items():
            self._job_stages.labels(stage).inc(seconds)

    def job_audio(self, seconds: float) -> None:
        """More audio of jobs is settled."""
        self._job_audio.inc(seconds)

    def embedded(self, lane: object, inputs: int, tokens: int, seconds: float) -> None:
        """A request for embeddings, or a reranking, was carried out."""
        self._embedded.labels(lane_name(lane)).inc(inputs)
        self._embedded_tokens.labels(lane_name(lane)).inc(tokens)
        self._embedding.labels(lane_name(lane)).observe(seconds)

    def webhook(self, outcome: str) -> None:
        """A webhook was "delivered", or "failed" for good."""
        self._webhooks.labels(outcome).inc()

    def request(self, route: str, status: int, seconds: float | None) -> None:
        """An HTTP request was answered after so long, or became a socket (None); `route` is the pattern, so that
        paths cannot make labels without end."""
        self._requests.labels(route, str(status)).inc()
        if seconds is not None:
            self._request_seconds.labels(route).observe(seconds)

    def tasks(self, count: int) -> None:
        """The event loop has so many tasks now."""
        self._tasks.set(count)

    def watch_engine(self, engine: Callable[[], Engine | None]) -> None:
        """Report the devices of the engine, once there is one."""
        self.registry.register(DeviceMetrics(engine))

    async def watch_loop(self) -> None:
        """Measure the event loop's lag until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_PERIOD
            await asyncio.sleep(LAG_PERIOD)
            self._lag.observe(max(0.0, loop.time() - due))

    def exposition(self) -> bytes:
        """Everything in Prometheus' text format 0.0.4."""
        return generate_latest(self.registry)
