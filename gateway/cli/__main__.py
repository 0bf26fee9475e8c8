"""`python -m gateway.cli` is the command `speechlane`."""

from gateway.cli import app

app(prog_name="speechlane")
