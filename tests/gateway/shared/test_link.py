"""Scripts that are sent together, to a server that does not know all of them yet."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from gateway.shared.link import Call, Link
from gateway.shared.metrics import SharedMetrics
from tests.gateway.shared.conftest import Valkey


def take(bucket: str) -> Call:
    """One of ten; a refill of one an hour."""
    return Call("bucket", [f"test:{bucket}"], [10, 1 / 3600, 1, 1])


async def test_what_a_server_has_carried_out_is_not_taken_again(valkey: Valkey) -> None:
    link = Link(valkey.url, "limits of keys", SharedMetrics(CollectorRegistry()))
    try:
        valkey.redis.script_flush()
        assert await link.run([take("first")]) == [[1, 9000]]  # the server learns this script here
        unknown = Call("seat", ["test:seats"], ["mine", 1, 60_000])
        assert await link.run([take("first"), unknown, take("second")]) == [[1, 8000], 1, [1, 9000]]
        assert await link.run([take("first"), take("second")]) == [[1, 7000], [1, 8000]]
    finally:
        await link.close()
