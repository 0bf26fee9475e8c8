"""`python -m load.capacity` is `speechlane capacity`."""

from load.capacity.cli import app

app(prog_name="speechlane capacity")
