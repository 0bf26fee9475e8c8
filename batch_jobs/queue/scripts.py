"""The Lua scripts: each is one atomic step of the queue. They run on Redis 6.2 and later, and on Valkey."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from redis import Redis
from redis.commands.core import Script
from redis.exceptions import ResponseError

from batch_jobs.job import Priority

PREFIX = "speechlane:"
GROUP = "workers"


@cache
def _source(name: str) -> str:
    lua = files(__package__) / "lua"
    return (lua / "prelude.lua").read_text("utf-8") + (lua / f"{name}.lua").read_text("utf-8")


class Scripts:
    """The scripts on one client. Thread-safe; a server that does not know a script is given it."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._known: dict[str, Script] = {}
        self.make_groups()

    def make_groups(self) -> None:
        """The streams and their group, which starts before the first entry. Harmless when they exist."""
        for stream in (name for priority in Priority for name in (str(priority), f"{priority}-new")):
            try:
                self._redis.xgroup_create(f"{PREFIX}tasks:{stream}", GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise

    def run(self, name: str, *arguments: str | float) -> Any:
        """The answer of script `name`. Raises the errors of redis-py."""
        script = self._known.get(name)
        if script is None:
            script = self._known[name] = self._redis.register_script(_source(name))
        try:
            return script(keys=[PREFIX], args=list(arguments))
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            self.make_groups()  # somebody emptied the server
            return script(keys=[PREFIX], args=list(arguments))
