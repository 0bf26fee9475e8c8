"""Make the virtual environments of the servers that are compared, from environments.toml and PyPI.

    python -m load.peers.install                      # all of them
    python -m load.peers.install whisperlive --into DIR

One that is there is left alone. They take about 1 GB each where a server needs torch.
"""

from __future__ import annotations

import argparse
import subprocess
import tomllib
import venv
from pathlib import Path

from load import corpora

MODULES = (
    "speechlane", "floor", "whisperlive", "whisperlivekit", "faster_whisper_server", "wyoming", "realtimestt",
    "whisper_cpp", "sherpa_onnx", "moonshine",
)  # fmt: skip
"""Of load.peers, each with `PEERS`: a server in all its modes."""
_DONE = "installed"


def environments() -> Path:
    """Where they are unless another folder is named."""
    return corpora.cache().parent / "peers"


def listed() -> dict[str, dict[str, list[str]]]:
    """For each environment its `packages`, and those that are installed `alone`."""
    return tomllib.loads((Path(__file__).parent / "environments.toml").read_text(encoding="utf-8"))


def installed(name: str, into: Path) -> bool:
    return (into / name / _DONE).exists()


def install(name: str, into: Path) -> None:
    """Make the environment `name` in the folder `into`."""
    asked = listed()[name]
    folder = into / name
    venv.create(folder, with_pip=True, clear=True)
    pip = [str(folder / "bin" / "pip"), "install", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, *asked["packages"]], check=True)
    if alone := asked.get("alone"):
        subprocess.run([*pip, "--no-deps", *alone], check=True)
    (folder / _DONE).touch()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(listed())} (default: all)")
    parser.add_argument("--into", type=Path, default=environments(), help="folder for them (default %(default)s)")
    options = parser.parse_args()
    for name in options.names or listed():
        if not installed(name, options.into):
            install(name, options.into)
        print(f"{name}: {options.into / name}")


if __name__ == "__main__":
    main()
