"""Piper on the step loop: a segment is one window, spoken by a process next door while its task waits in short steps.

A step waits at most `SLICE` for the processes, so a cancel takes effect as soon; what a process still says for a
segment that nobody wants is thrown away. Give it a device of its own: its steps wait, they do not compute.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from speech.tts import Planned, PlanRequest, Rendered, RenderRequest, Sound
from speech.voices.head import trim_head
from speech.voices.joined import has_sound
from speech.voices.pace import characters, estimate
from speech.voices.piper.process import START_LIMIT, Frame, WorkerFault, WorkerProcess, wait
from speech.voices.piper.text import TEXT_LIMIT, written
from workers.backend import Demand, Done, Limits, More, Spec, StepResult
from workers.clock import Clock, monotonic
from workers.errors import BackendFailed, Cancelled, InputInvalid, InputTooLarge

log = logging.getLogger(__name__)

SLICE = 0.020
"""Seconds that a step waits for the processes."""
SPEEDS = (0.25, 4.0)
SECONDS_PER_CHARACTER, SECONDS_MORE = 0.5, 5.0
"""A segment that gets longer than this at speed 1 has gone wrong."""


@dataclass(slots=True, eq=False)
class Job:
    """A plan, or a segment on its way through a process, there under `number`; `most` are the samples it may get."""

    request: PlanRequest | RenderRequest
    text: str
    most: int
    process: WorkerProcess | None = None
    number: int = 0
    sounds: list[Sound] = field(default_factory=list)


class PiperBackend:
    """`command` starts a process that speaks the frames of worker.py, at `rate` Hz; `processes` work at once."""

    def __init__(
        self,
        model: str,
        command: Sequence[str],
        rate: int,
        *,
        processes: int = 1,
        speaker: int | None = None,
        clock: Clock = monotonic,
    ) -> None:
        self.spec = Spec("tts", model)
        self.limits = Limits(items=processes)
        self._command, self._rate, self._speaker, self._clock = command, rate, speaker, clock
        self._processes: list[WorkerProcess] = []

    def load(self, device: str) -> None:
        """Start the processes and wait until they have their voice. Always on the CPU. Raises BackendFailed."""
        self.close()
        self._processes = [WorkerProcess(self._command, self._rate, self._clock) for _ in range(self.limits.items)]
        until = self._clock() + START_LIMIT
        try:
            for process in self._processes:
                process.start()
            while not all(process.ready for process in self._processes):
                wait(self._processes, SLICE)
                for process in self._processes:
                    process.hear()
                if self._clock() > until:
                    raise WorkerFault(f"it was not ready after {START_LIMIT:.0f} s")
        except WorkerFault as fault:
            self.close()
            remedy = "install piper-tts into an environment and name its Python"
            raise BackendFailed(f"{self.spec.model}: {fault}. Where Piper is missing: {remedy}") from fault

    def check(self) -> None:
        """Raises when the voice was not loaded; a process that ended is started again by the next segment."""
        if not self._processes:
            raise BackendFailed(f"{self.spec.model} is not loaded")

    def open(self, payload: PlanRequest | RenderRequest) -> Job:
        """Check the request. Raises InputInvalid, InputTooLarge, and Cancelled for a voicing that was released."""
        if not isinstance(payload, PlanRequest | RenderRequest):
            raise InputInvalid("a voice takes a PlanRequest or a RenderRequest", param="payload")
        if payload.voicing.released:
            raise Cancelled("nobody wants this segment any more")
        if isinstance(payload, RenderRequest) and payload.window != 0:
            raise InputInvalid("a Piper voice speaks a segment in one window", param="window")
        segment = payload.voicing.segment
        if not SPEEDS[0] <= segment.speed <= SPEEDS[1]:
            raise InputInvalid(f"speed must be from {SPEEDS[0]} to {SPEEDS[1]}", param="speed")
        sounding = any(has_sound(token) for token in segment.tokens)
        text, _ = written(segment.tokens) if sounding else ("", [])
        if len(text) > TEXT_LIMIT:
            raise InputTooLarge(f"a segment has at most {TEXT_LIMIT} characters; cut it at a sentence", param="input")
        seconds = (SECONDS_MORE + SECONDS_PER_CHARACTER * characters(segment.tokens)) / segment.speed
        return Job(payload, text, int(seconds * self._rate))

    def demand(self, job: Job) -> Demand:
        """Plans cost nothing; segments share the processes."""
        return Demand("plan" if isinstance(job.request, PlanRequest) else "segment", 1)

    def step(self, jobs: Sequence[Job]) -> list[StepResult]:
        """Send what can be sent, wait a little, and take what has been said."""
        out: list[StepResult] = [More() for _ in jobs]
        going: list[tuple[int, Job]] = []
        for n, job in enumerate(jobs):
            if job.request.voicing.released:
                out[n] = Cancelled("nobody wants this segment any more")
            elif isinstance(job.request, PlanRequest):
                out[n] = Done(Planned(None if job.text else ()))
            elif not job.text:
                out[n] = Done(Rendered(np.zeros(0, np.float32), last=True))
            else:
                going.append((n, job))
        if not going:
            return out
        for n, job in going:
            try:
                self._send(job)
            except WorkerFault as fault:
                out[n] = BackendFailed(f"{self.spec.model}: {fault}")
        wait(self._processes, SLICE)
        heard = [self._hear(process) for process in self._processes]
        for n, job in going:
            if isinstance(out[n], More) and job.process is not None:
                out[n] = self._take(job, heard[self._processes.index(job.process)])
        return out

    def discard(self, job: Job) -> None:
        """Forget the segment; its process goes on with it and is not listened to."""
        job.process = None
        job.sounds.clear()

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.stop()
        self._processes = []

    def _send(self, job: Job) -> None:
        """Give the segment to a process that has nothing to do; start one that has ended. Raises WorkerFault."""
        if job.process is not None:
            return
        free = next((process for process in self._processes if process.ready), None)
        if free is not None:
            job.number = free.ask(job.text, job.request.voicing.segment.speed, self._speaker)
            job.process = free
            return
        for process in self._processes:
            process.start()

    def _hear(self, process: WorkerProcess) -> list[Frame] | WorkerFault:
        try:
            return process.hear()
        except WorkerFault as fault:
            log.warning("%s: %s", self.spec.model, fault)
            return fault

    def _take(self, job: Job, heard: list[Frame] | WorkerFault) -> StepResult:
        """What the process has said for this segment."""
        if isinstance(heard, WorkerFault):
            return BackendFailed(f"{self.spec.model}: {heard}")
        for message, body in heard:
            if message.get("id") != job.number:
                continue
            if message["kind"] == "done":
                return self._done(job)
            if message["kind"] == "error":
                return BackendFailed(f"{self.spec.model} failed on this text: {str(message.get('message'))[:500]}")
            job.sounds.append(np.frombuffer(body, "<f4").astype(np.float32))
            if len(job.sounds) > job.most or sum(len(sound) for sound in job.sounds) > job.most:
                assert job.process is not None
                job.process.stop()
                return BackendFailed(f"{self.spec.model} did not end a text of {len(job.text)} characters")
        return More()

    def _done(self, job: Job) -> StepResult:
        samples = np.concatenate([*job.sounds, np.zeros(0, np.float32)])
        if not np.isfinite(samples).all():
            return BackendFailed(f"{self.spec.model} made samples that are not numbers")
        if not len(samples):
            return BackendFailed(f"{self.spec.model} made no sound of this text")
        segment = job.request.voicing.segment
        if segment.first:
            samples = trim_head(samples, self._rate)
        times = estimate(segment.tokens, 0.0, len(samples) / self._rate, last=True)
        return Done(Rendered(np.clip(samples, -1.0, 1.0), last=True, times=times))
