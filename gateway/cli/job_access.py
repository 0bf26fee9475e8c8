"""Commands on the queue: their shared options, the queue opened and closed around them, its errors as messages."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gateway.cli import lane_options as asked
from gateway.cli.console import fail

if TYPE_CHECKING:
    from batch_jobs.jobs import Jobs
    from batch_jobs.settings import BatchSettings

PLACES = {
    "redis_url": asked.RedisUrl,
    "spool_url": asked.SpoolUrl,
    "batch_dir": asked.BatchDir,
    "config": asked.Config,
}


def with_jobs(function: Callable[..., None]) -> Callable[..., None]:
    """A command out of a function that takes `jobs` first: with the options that say where they are, it gets them."""

    def command(**given: Any) -> None:
        settings = asked.batch_settings(*(given.pop(name) for name in PLACES))
        with opened(settings) as jobs:
            function(jobs, **given)

    kinds = typing.get_type_hints(function, include_extras=True, globalns={**function.__globals__, "Jobs": object})
    own = [
        one.replace(annotation=kinds[one.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for one in list(inspect.signature(function).parameters.values())[1:]
    ]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in PLACES.items()
    ]
    command.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    return command


@contextmanager
def opened(settings: BatchSettings) -> Iterator[Jobs]:
    """The jobs of a queue; an error of queue or spool ends the command with a message that holds no password."""
    # Imported late so that --help and wrong arguments answer at once.
    from redis.exceptions import RedisError

    from batch_jobs.jobs import Jobs
    from workers.errors import ServingError

    try:
        jobs = Jobs.open(settings)
        try:
            yield jobs
        finally:
            jobs.close()
    except ServingError as error:
        fail(asked.without_secrets(error.message, settings))
    except RedisError as error:
        where = asked.shown_url(settings.redis_url) if settings.redis_url else "our own server"
        fail(asked.without_secrets(f"the queue ({where}) does not answer: {error}", settings))
    except BrokenPipeError:
        raise
    except OSError as error:
        fail(asked.without_secrets(str(error), settings))
