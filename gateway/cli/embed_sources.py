"""What the arguments of `speechlane embed` stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from batch_jobs.job import Job, State
from batch_jobs.settings import BatchSettings
from gateway.cli.job_access import opened
from vision_text.ingest.guessing import guess_fields
from vision_text.ingest.sources import Columns, Source, open_source
from vision_text.ingest.transcripts import FIELDS, Recording, Transcripts
from vision_text.store.rows import FieldKind
from workers.errors import InputInvalid

PAGE = 1000


class Sources:
    """A context manager: the queue of jobs is open inside, where the sources are jobs."""

    def __init__(
        self,
        given: Sequence[str],
        id: str,
        text: str,
        *,
        jobs: bool,
        transcripts: bool,
        settings: BatchSettings,
    ) -> None:
        self._given, self._id, self._text = given, id, text
        self._jobs, self._transcripts, self._settings = jobs, transcripts, settings
        self._held = ExitStack()
        self._found: Transcripts | None = None

    @property
    def key(self) -> str:
        """Names the sources: the same command finds its checkpoint by it."""
        if self._jobs:
            return "\0".join(["jobs", *sorted(self._given)])
        return "\0".join(str(Path(one).absolute()) for one in self._given)

    def __enter__(self) -> Self:
        if self._jobs:
            self._found = self._of_jobs()
        elif self._transcripts:
            self._found = Transcripts.of_files([Path(one) for one in self._given])
        else:
            self.open({})  # what is not there is told before a model is loaded
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.close()

    def guess(self) -> dict[str, FieldKind]:
        """Fields for a new collection."""
        return dict.fromkeys(FIELDS, "text") if self._found is not None else guess_fields(self.open({}))

    def open(self, fields: Mapping[str, FieldKind]) -> Source:
        """The source, for a collection with these fields. Raises InputInvalid."""
        if self._found is not None:
            return self._found
        return open_source(Path(self._given[0]).absolute(), Columns(self._id, self._text, fields))

    def _of_jobs(self) -> Transcripts:
        jobs = self._held.enter_context(opened(self._settings))

        def recording(job: Job) -> Recording:
            return Recording(job.id, job.name, lambda: jobs.render(job.id, "json"))

        if list(self._given) != ["all"]:
            return Transcripts("jobs", [recording(jobs.get(id)) for id in self._given])
        found: list[Job] = []
        page = jobs.list(limit=PAGE)
        while page:
            found += [job for job in page if job.state in (State.DONE, State.PARTIAL)]
            page = jobs.list(limit=PAGE, before=page[-1].id)
        if not found:
            raise InputInvalid("There are no finished jobs.", param="source")
        return Transcripts("all jobs", [recording(job) for job in sorted(found, key=lambda job: job.id)])
