"""/v1/collections and /v1/search with the real model: what goes in, what is found, and by whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer

from gateway.app import build_app
from gateway.settings import load_settings
from workers.device import Device

FIRST, SECOND = "first-key-0123456789", "second-key-0123456789"
DOCUMENTS = [
    {"id": "cat", "text": "The cat sat on the warm window sill.", "year": 1990, "kind": "note"},
    {"id": "bank", "text": "Interest rates were raised by the central bank.", "year": 2008},
    {"id": "ship", "text": "A ship crossed the stormy sea at night.", "year": 1912, "pages": [1, 2]},
]

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Asker:
    """Requests with one key."""

    def __init__(self, client: TestClient[Any, Any], key: str | None) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = {"data": body} if isinstance(body, bytes) else {"json": body} if body is not None else {}
        async with self._client.request(method, path, headers=self._headers, **data) as answer:
            return answer.status, await answer.json() if answer.status != 204 else None


@asynccontextmanager
async def served(tmp_path: Path, **settings: Any) -> AsyncIterator[Callable[[str | None], Asker]]:
    """A service with embeddings and nothing else; gives askers by key."""
    device = Device("cpu:0")
    device.start()

    async def close() -> None:
        await asyncio.to_thread(device.close)

    async def start(_: Any) -> Any:
        nobody = SimpleNamespace(speaking=0, free=0, made=0.0, wasted=0.0)
        status = SimpleNamespace(ready=True, devices=(), apart=(), speech=nobody, carried=())
        return SimpleNamespace(devices=[device], close=close, status=lambda: status)

    app = build_app(load_settings(collections=str(tmp_path / "collections"), batch=False, **settings), start)
    async with TestClient(TestServer(app)) as client:
        asker = Asker(client, FIRST if settings.get("api_keys") else None)
        async with asyncio.timeout(60):
            while (await asker("POST", "/v1/embeddings", {"input": "a"}))[0] != 200:
                await asyncio.sleep(0.1)
        yield lambda key: Asker(client, key)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def askers(directory: Path) -> AsyncIterator[Callable[[str | None], Asker]]:
    async with served(directory, api_keys=f"{FIRST},{SECOND}") as found:
        yield found


@pytest.fixture
def ask(askers: Callable[[str | None], Asker]) -> Asker:
    return askers(FIRST)


async def filled(ask: Asker, name: str) -> None:
    status, made = await ask("POST", "/v1/collections", {"name": name, "fields": {"year": "number", "kind": "text"}})
    assert (status, made["documents"]) == (201, 0)
    status, answer = await ask("POST", f"/v1/collections/{name}/documents", {"documents": DOCUMENTS})
    assert (status, answer["added"], answer["errors"]) == (200, 3, [])
    assert answer["usage"]["total_tokens"] > 20


def names(answer: Any) -> list[str]:
    return [hit["document"] for hit in answer["data"]]


async def test_documents_go_in_and_are_found(ask: Asker) -> None:
    await filled(ask, "notes")
    _, found = await ask("POST", "/v1/search", {"collection": "notes", "query": "a boat in bad weather", "limit": 2})
    assert (names(found)[0], found["mode"]) == ("ship", "hybrid")
    hit = found["data"][0]
    assert (hit["fields"], hit["extra"], hit["start"]) == ({"year": 1912.0}, {"pages": [1, 2]}, None)
    _, found = await ask("POST", "/v1/search", {"collection": "notes", "query": "Bank!", "mode": "words"})
    assert names(found) == ["bank"] and found["data"][0]["similarity"] is None
    asked = {"collection": "notes", "query": "animals", "filter": {"year": {"lt": 1950}}}
    assert names((await ask("POST", "/v1/search", asked))[1]) == ["ship"]
    _, shown = await ask("GET", "/v1/collections/notes")
    assert (shown["documents"], shown["pieces"], shown["space"]["dimensions"]) == (3, 3, 384)

    again = [DOCUMENTS[0], {"id": "bank", "text": "A bench in the park."}, {"id": "new", "text": " "}, 7]
    _, answer = await ask("POST", "/v1/collections/notes/documents", {"documents": again})
    assert (answer["added"], answer["replaced"], answer["unchanged"]) == (0, 1, 1)
    assert [one["id"] for one in answer["errors"]] == ["new", "documents[3]"]
    _, removed = await ask("POST", "/v1/collections/notes/documents/delete", {"documents": ["cat", "nobody"]})
    assert removed["removed"] == 1
    assert (await ask("DELETE", "/v1/collections/notes"))[0] == 204
    assert (await ask("GET", "/v1/collections/notes"))[0] == 404


async def test_long_documents_are_cut_and_binary_ones_are_found(ask: Asker) -> None:
    body = {"name": "long", "precision": "binary"}
    assert (await ask("POST", "/v1/collections", body))[0] == 201
    text = " ".join(f"Line {n} is about {'whales' if n == 60 else 'nothing much'}." for n in range(120))
    _, answer = await ask("POST", "/v1/collections/long/documents", {"documents": [{"id": "a", "text": text}]})
    assert answer["added"] == 1 and answer["pieces"] > 2
    _, found = await ask("POST", "/v1/search", {"collection": "long", "query": "whales", "limit": 1})
    assert "whales" in found["data"][0]["text"]


async def test_a_key_finds_its_own_collections_only(ask: Asker, askers: Callable[[str | None], Asker]) -> None:
    other = askers(SECOND)
    await filled(ask, "mine")
    for method, path, body in (
        ("GET", "/v1/collections/mine", None),
        ("DELETE", "/v1/collections/mine", None),
        ("POST", "/v1/collections/mine/documents", {"documents": DOCUMENTS}),
        ("POST", "/v1/collections/mine/documents/delete", {"documents": ["cat"]}),
        ("POST", "/v1/search", {"collection": "mine", "query": "cat"}),
    ):
        status, answer = await other(method, path, body)
        assert (status, answer["error"]["code"]) == (404, "collection_not_found")
    assert (await other("GET", "/v1/collections"))[1]["data"] == []
    await filled(other, "mine")
    assert "mine" in [one["name"] for one in (await ask("GET", "/v1/collections"))[1]["data"]]
    assert (await askers("wrong")("GET", "/v1/collections"))[0] == 401
    # Nobody has finished jobs here, so there is nothing to find; nor can anybody write where the service does.
    _, found = await ask("POST", "/v1/batch/search", {"query": "anything"})
    assert found["data"] == []
    status, answer = await ask("POST", "/v1/collections", {"name": "transcripts"})
    assert (status, answer["error"]["code"]) == (409, "collection_is_kept")


async def test_vectors_come_with_their_space(ask: Asker) -> None:
    await filled(ask, "spaces")
    _, made = await ask("POST", "/v1/embeddings", {"input": "a boat in bad weather"})
    vector, space = made["data"][0]["embedding"], made["speechlane"]["space"]["fingerprint"]
    asked = {"collection": "spaces", "vector": vector, "limit": 1}
    status, found = await ask("POST", "/v1/search", asked | {"space": space})
    assert (status, found["mode"], names(found)) == (200, "vector", ["ship"])
    for wrong in ({}, {"space": "0123456789abcdef"}):
        status, answer = await ask("POST", "/v1/search", asked | wrong)
        assert (status, answer["error"]["code"]) == (409, "space_mismatch")
        assert "cannot be compared even where their lengths are equal" in answer["error"]["message"]
    status, answer = await ask("POST", "/v1/search", asked | {"space": space, "vector": vector[:-1]})
    assert (status, answer["error"]["param"]) == (400, "vectors")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"collection": "bad"}, "query"),
        ({"collection": "bad", "query": ""}, "query"),
        ({"collection": "bad", "query": "x", "limit": 0}, "limit"),
        ({"collection": "bad", "query": "x", "limit": 10**9}, "limit"),
        ({"collection": "bad", "query": "x" * 10_000}, "query"),
        ({"collection": "bad", "query": "x", "mode": "magic"}, "mode"),
        ({"collection": "bad", "query": "x", "filter": {"nobody": 1}}, "filter"),
        ({"collection": "bad", "query": "x", "filter": {"year": {"gte": "' OR 1=1 --"}}}, "filter"),
        ({"collection": "bad", "query": "x", "filter": {"year) OR (1=1": 1}}, "filter"),
        ({"collection": "bad", "query": "x", "unknown": 1}, "unknown"),
        ({"collection": "../../etc", "query": "x"}, "collection"),
        ({"collection": "bad", "query": "x", "vector": []}, "space"),
    ],
)
async def test_searches_of_no_use_name_their_field(ask: Asker, body: dict[str, Any], param: str) -> None:
    if "bad" not in [one["name"] for one in (await ask("GET", "/v1/collections"))[1]["data"]]:
        await filled(ask, "bad")
    status, answer = await ask("POST", "/v1/search", body)
    assert 400 <= status < 500 and answer["error"]["param"] == param, answer


async def test_bad_bodies_are_refused(ask: Asker) -> None:
    for name in ("", "a/b", "x" * 65, ".hidden", "-a"):
        assert (await ask("POST", "/v1/collections", {"name": name}))[0] == 400
    for body in (
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"name": "x", "fields": {"text": "text"}}',
        b'{"name": "x", "fields": 3}',
    ):
        assert (await ask("POST", "/v1/collections", body))[0] == 400
    assert (await ask("POST", "/v1/collections", {"name": "x", "model": "unknown"}))[0] == 404
    await filled(ask, "bodies")
    for documents in ([], [{"id": "x", "text": "x"}] * 2049, "x"):
        status, answer = await ask("POST", "/v1/collections/bodies/documents", {"documents": documents})
        assert (status, answer["error"]["param"]) == (400, "documents")
    hostile = {"id": "x' OR '1'='1", "text": "'; DROP TABLE rows; --", "__proto__": {"a": 1}}
    _, answer = await ask("POST", "/v1/collections/bodies/documents", {"documents": [hostile]})
    assert answer["added"] == 1
    _, found = await ask(
        "POST", "/v1/search", {"collection": "bodies", "query": "DROP TABLE", "filter": {"document": hostile["id"]}}
    )
    assert names(found) == [hostile["id"]]
    # Everything would be too much to remove by an empty request.
    assert (await ask("POST", "/v1/collections/bodies/documents/delete", {}))[0] == 400
