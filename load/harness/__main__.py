"""`python -m load.harness`, where the package's commands are not installed."""

from __future__ import annotations

from load.harness.cli import app

if __name__ == "__main__":
    app(prog_name="speechlane load")
