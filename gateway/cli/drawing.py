"""What `imagine`, `film` and `look` share: options, a model in this process, and questions to a service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gateway.cli.console import fail

if TYPE_CHECKING:
    from workers.device import Device

Negative = Annotated[str, typer.Option("--negative", help="What is not to be seen.")]
Size = Annotated[str | None, typer.Option(help="WIDTHxHEIGHT; unset: the model's own.")]
Seed = Annotated[int | None, typer.Option(help="The same one, the same result; unset: a new one.", min=0)]
Steps = Annotated[int | None, typer.Option(help="Steps of denoising; unset: the model's own number.", min=1)]
Guidance = Annotated[float | None, typer.Option(help="How closely the text is followed.", min=0.0)]
Interval = Annotated[
    str | None, typer.Option(metavar="START,STOP", help="Part of the steps that are guided, 0 to 1: 0,0.6.")
]
Exact = Annotated[bool, typer.Option("--exact", help="Without any approximation.")]
Option = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=JSON", help="An approximation; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print how it was made, as JSON.")]
Download = Annotated[bool, typer.Option("--download", help="Fetch a model that is not here from the hub.")]
Url = Annotated[str | None, typer.Option(help="Let this service do it; unset: this process.", envvar="SPEECHLANE_URL")]
Key = Annotated[str | None, typer.Option(help="API key; better given in the variable.", envvar="SPEECHLANE_API_KEY")]
SERVICE_SECONDS = 3600.0

Model = TypeVar("Model")


@contextmanager
def told(known: Callable[[str], str] = str) -> Iterator[None]:
    """Ends the command with what went wrong in it, in a line. `known`: a message of the service or the model as whoever
    has called the command knows things."""
    # Imported late so that --help and wrong arguments answer at once.
    from speechlane.client.errors import ClientError
    from workers.errors import ServingError

    try:
        yield
    except ServingError as error:
        fail(known(error.message), 2 if error.status in (413, 422) else 1)
    except (ClientError, ValueError) as error:
        fail(str(error))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(130) from None


def drawing_fields(
    prompt: str,
    negative: str,
    size: str | None,
    seed: int | None,
    steps: int | None,
    guidance: float | None,
    interval: str | None,
    exact: bool,
    option: list[str] | None,
) -> dict[str, Any]:
    """Fields as a service takes them, without those that were not given. Ends the command on what is wrong."""
    fields: dict[str, Any] = {
        "prompt": prompt,
        "negative_prompt": negative or None,
        "size": size,
        "seed": seed,
        "steps": steps,
        "guidance": guidance,
        "interval": _interval(interval),
        "exact": exact or None,
        "options": given_options(option) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def given_options(option: list[str] | None) -> dict[str, Any]:
    """Of --option. Ends the command on one that is wrong."""
    found = {}
    for entry in option or ():
        name, equals, value = entry.partition("=")
        try:
            found[name.strip()] = json.loads(value) if equals else True
        except ValueError:
            found[name.strip()] = value
    return found


def _interval(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        start, stop = (float(part) for part in text.split(","))
    except ValueError:
        fail(f"--interval is {text}; give two numbers such as 0,0.6", 2)
    return [start, stop]


@asynccontextmanager
async def devices() -> AsyncIterator[list[Device]]:
    """What models of this process live on."""
    from speech.engine import Engine, EngineSettings

    engine = await Engine.start(EngineSettings(models=(), voices=()))
    try:
        yield engine.devices
    finally:
        await engine.close()


@asynccontextmanager
async def opened(facade: Callable[[], Any], name: str, *, download: bool) -> AsyncIterator[Any]:
    """A model of this process, by its class."""
    import asyncio

    from gateway.vision.quiet import quiet

    await asyncio.to_thread(quiet)
    kind = await asyncio.to_thread(facade)
    async with devices() as found:
        model = await kind.start(name, found, allow_download=download)
        try:
            yield model
        finally:
            await model.close()


def free_name(stem: str, ending: str) -> Path:
    """A file that is not there yet."""
    path, n = Path(f"{stem}{ending}"), 1
    while path.exists():
        path, n = Path(f"{stem}-{n}{ending}"), n + 1
    return path


def numbered(path: Path, n: int, count: int) -> Path:
    """The file of one of several."""
    return path if count == 1 else path.with_name(f"{path.stem}-{n + 1}{path.suffix}")


def service_events(url: str, key: str | None, path: str) -> Iterator[Any]:
    """Data of server-sent events. Raises ClientError."""
    import urllib.request

    from speechlane.client.errors import ClientError, refusal
    from speechlane.client.wire import endpoint

    request = urllib.request.Request(_address(url, path, endpoint))  # noqa: S310, checked there
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=SERVICE_SECONDS) as answer:  # noqa: S310
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
    except urllib.error.HTTPError as error:
        with error:
            raise refusal(error.code, error.read(65_536), url) from error
    except (OSError, ValueError) as error:
        raise ClientError(f"the service at {url} broke off: {error}") from error


def service_file(url: str, key: str | None, path: str) -> bytes:
    """A file of a service. Raises ClientError."""
    import urllib.request

    from speechlane.client.errors import ClientError, refusal
    from speechlane.client.wire import endpoint

    request = urllib.request.Request(_address(url, path, endpoint))  # noqa: S310, checked there
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=SERVICE_SECONDS) as answer:  # noqa: S310
            data: bytes = answer.read()
            return data
    except urllib.error.HTTPError as error:
        with error:
            raise refusal(error.code, error.read(65_536), url) from error
    except OSError as error:
        raise ClientError(f"the service at {url} broke off: {error}") from error


def _address(url: str, path: str, endpoint: Callable[..., str]) -> str:
    target = endpoint(url, path).replace("ws", "http", 1)
    if not target.startswith(("http://", "https://")):
        raise ValueError(f"{url} is no address of a service")
    return target
