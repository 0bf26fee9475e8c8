"""Brings a trained directory into the package: its files to vision_text/small, their hashes into the manifest."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

_ROOM = Path(__file__).parents[1]
_KINDS = {".json", ".jinja", ".safetensors", ".txt"}


def publish(name: str, trained: Path, *, task: str, script: str, seed: int, score: float, measure: str) -> Path:
    """Replaces what was there under the name. `measure` says in words what `score` (0..1) is of."""
    home = _ROOM / "small" / name
    shutil.rmtree(home, ignore_errors=True)
    for path in sorted(trained.rglob("*")):
        if path.suffix in _KINDS:
            target = home / path.relative_to(trained)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".json":
                target.write_text(_clean(path.read_text("utf-8")), "utf-8")
            else:
                shutil.copyfile(path, target)
    lines = ["[[small]]", *(f"{key} = {json.dumps(value)}" for key, value in {
        "name": name, "task": task, "script": script, "seed": seed, "licence": "Apache-2.0",
        "score": round(score, 4), "measure": measure,
    }.items()), "", "[small.sha256]"]  # fmt: skip
    for path in sorted(path for path in home.rglob("*") if path.is_file()):
        lines.append(f'"{path.relative_to(home).as_posix()}" = "{hashlib.sha256(path.read_bytes()).hexdigest()}"')
    manifest = _ROOM / "manifest.toml"
    blocks = re.split(r"\n(?=\[\[)", manifest.read_text("utf-8").rstrip("\n"))
    kept = [block.rstrip("\n") for block in blocks if f"name = {json.dumps(name)}" not in block.splitlines()]
    manifest.write_text("\n\n".join([*kept, "\n".join(lines)]) + "\n", "utf-8")
    return home


def _clean(text: str) -> str:
    """A configuration without the directory of the machine that it was trained on."""
    value = json.loads(text)
    if isinstance(value, dict):
        value.pop("_name_or_path", None)
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
