"""The objects of a snippet in docs/protocols.md, pointed at a service under test. Runs where the clients are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[3] / "docs" / "protocols.md"
PLACE = "127.0.0.1:8700"


def documented(heading: str, address: str) -> dict[str, Any]:
    """What the first Python block under a heading makes, for a service at `address` (HOST:PORT)."""
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", DOCS.read_text("utf-8"), re.M | re.S)
    assert section, f"{DOCS.name} has no section {heading}"
    block = re.search(r"^```python\n(.*?)^```", section[1], re.M | re.S)
    assert block, f"{heading} has no snippet"
    assert PLACE in block[1]
    made: dict[str, Any] = {}
    exec(compile(block[1].replace(PLACE, address), DOCS.name, "exec"), made)
    return made
