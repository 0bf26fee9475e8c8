"""`speechlane tune`: which options of a model are worth having on this machine."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from gateway.cli.console import err, fail, out

if TYPE_CHECKING:
    from workers.gate.evidence import Evidence
    from workers.gate.profile import Profile
    from workers.gate.subject import Option
    from workers.gate.thresholds import Thresholds
    from workers.gate.trial import Gate

HELP = """Try a model's options on this machine, and let the service have those that pass.

Each option is run in turns with the model as exactly as it can be run. It passes when it changes what really runs, is
faster for sure, loses no quality over 200 items or more (nor in the worst twentieth of them), is better than simply
doing less at the same measured cost, and keeps requests apart. What passed is tried together.

What passed goes into a profile, which speechlane serve reads; it holds until the weights, the scheduler, the steps, the
resolution, a version or the device change. A report with plots and pictures side by side is written beside it. On a
slow machine this takes hours for large models; --options tries only some.

A model of pictures, clips, or that sees; one that hears (tiny.en), the voice heart, one for embeddings.

Exits with 0 when the trial was done, whatever its outcome, 1 when it could not be, 2 when the arguments are wrong.

Examples:

  speechlane tune shapes-image

  speechlane tune shapes-vlm --options prefix_cache,kv

  speechlane tune shapes-image --options 'step_cache=["first_block", 0.08]' --report cache.html

  speechlane tune ./my-flux --prompts prompts.txt --device cuda:0

  speechlane tune shapes-image --show

  speechlane tune shapes-image --force 'steps=20'     serve it without proof; --unforce takes it back
"""


def command(
    model: Annotated[str, typer.Argument(help="Its name, folder, or name on the hub.")],
    options: Annotated[
        str | None,
        typer.Option(help="Only these, separated by commas; NAME, or NAME=JSON for a value of one's own."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="image, video, vlm, asr, tts or embeddings, if it is not clear.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda:0.")] = "cpu",
    items: Annotated[int, typer.Option(help="Inputs that quality is judged by.", min=200, max=100_000)] = 200,
    most_items: Annotated[int, typer.Option(help="As many at most, while it cannot be told.", min=200)] = 800,
    seed: Annotated[int, typer.Option(help="Of the inputs.", min=0)] = 0,
    steps: Annotated[int | None, typer.Option(help="Of the reference; unset: the model's own.", min=1)] = None,
    side: Annotated[int | None, typer.Option(help="Pixels of pictures; unset: the model's own.", min=8)] = None,
    prompts: Annotated[Path | None, typer.Option(help="A file with a prompt in each line, for real models.")] = None,
    recordings: Annotated[
        Path | None, typer.Option(help="A folder with references.tsv (file, text) for models that hear.")
    ] = None,
    smaller: Annotated[str | None, typer.Option(help="The smaller model that a larger one is compared with.")] = None,
    report: Annotated[Path | None, typer.Option(help="Where the report goes; unset: beside the profile.")] = None,
    no_harmful: Annotated[
        bool, typer.Option("--no-harmful", help="Without the options that are there to fail.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Only tell what was found before.")] = False,
    force: Annotated[
        str | None, typer.Option(help="Serve these without proof: NAME=JSON, separated by commas.")
    ] = None,
    unforce: Annotated[bool, typer.Option("--unforce", help="Take back what was forced.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The profile as JSON.")] = False,
    download: Annotated[bool, typer.Option("--download", help="Fetch the model from the hub.")] = False,
) -> None:
    from gateway.tune.subjects import SubjectUnknown, Wanted
    from workers.gate.profile import ProfileDamaged

    try:
        if force is not None or unforce:
            _force(model, {} if unforce else _settings(force or ""))
            return
        if show:
            _show(model, as_json)
            return
    except ProfileDamaged as error:
        fail(str(error))
    from workers.gate.thresholds import thresholds

    if most_items < items:
        fail("--most-items is less than --items", 2)
    wanted = Wanted(model, kind, device, steps, side, prompts, recordings, smaller, download)
    bars = thresholds().with_trial(items=items, most_items=most_items)
    try:
        found = _tuned(wanted, options, bars, seed, report, harmful=not no_harmful)
    except SubjectUnknown as error:
        fail(str(error), 2)
    except (ValueError, OSError, ImportError) as error:
        fail(f"{model} cannot be tried: {error}")
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=1, sort_keys=True))
    else:
        _tell(found)


def _tuned(
    wanted: Any, options: str | None, bars: Thresholds, seed: int, page: Path | None, *, harmful: bool
) -> Profile:
    from gateway.tune.report import report
    from gateway.tune.subjects import subject
    from workers.gate.profile import ProfileDamaged, load_profile, profile_path
    from workers.gate.trial import Gate
    from workers.gate.tuning import tune

    began = time.monotonic()

    def tell(line: str) -> None:
        err.print(f"{time.monotonic() - began:7.0f} s  {line}", markup=False)

    tell(f"loading {wanted.model}")
    trying = subject(wanted)
    gate = Gate(trying, bars=bars, seed=seed, tell=tell)
    chosen = _chosen(gate, options, harmful=harmful)
    profile = tune(gate, chosen).profile(gate)
    try:
        before = load_profile(profile.model)
    except ProfileDamaged:
        before = None
    if before is not None and before.forced:
        for settings in before.forced:
            profile = profile.force(settings)
    path = profile.save()
    page = page or profile_path(profile.model).with_suffix(".html")
    page.write_text(report(gate, profile), "utf-8")
    tell(f"profile {path}")
    tell(f"report  {page}")
    if (close := getattr(trying, "close", None)) is not None:
        close()
    return profile


def _chosen(gate: Gate, wanted: str | None, *, harmful: bool) -> list[Option]:
    from workers.gate.subject import Option

    known = [one for one in gate.subject.options() if harmful or not one.harmful]
    if wanted is None:
        return known
    found: list[Option] = []
    for part in _parts(wanted):
        name, given, value = part.partition("=")
        name = name.strip()
        if given:
            found.append(_own(Option(name, _value(part, value)), known))
        elif named := [one for one in known if one.name == name]:
            found += named
        else:
            names = ", ".join(dict.fromkeys(one.name for one in known))
            fail(f"{gate.subject.name} has no option {name!r}; it has {names}", 2)
    return found


def _own(wanted: Option, known: list[Option]) -> Option:
    """A value of one's own is tried as others of its name are: for time or for memory."""
    from workers.gate.subject import canonical  # brings numpy, which no other command should wait for

    same = [one for one in known if one.name == wanted.name]
    equal = [one for one in same if canonical(one.settings) == canonical(wanted.settings)]
    if equal:
        return equal[0]
    return replace(wanted, gains=same[0].gains, together=same[0].together) if same else wanted


def _settings(text: str) -> dict[str, Any]:
    found = {}
    for part in _parts(text):
        name, given, value = part.partition("=")
        if not given:
            fail(f"{part!r} has no value; write NAME=JSON, as in steps=20", 2)
        found[name.strip()] = _value(part, value)
    if not found:
        fail("--force needs NAME=JSON", 2)
    return found


def _parts(text: str) -> list[str]:
    """Cut at the commas that are not within brackets or quotes."""
    parts, depth, quoted, start = [], 0, False, 0
    for n, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif not quoted:
            depth += (character in "[{") - (character in "]}")
            if character == "," and depth == 0:
                parts.append(text[start:n])
                start = n + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def _value(part: str, text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        if text.strip().isidentifier():
            return text.strip()
        fail(f"the value in {part!r} is no JSON; as in steps=20 or step_cache='[\"first_block\", 0.1]'", 2)
    return tuple(value) if isinstance(value, list) else value


def _force(model: str, settings: dict[str, Any]) -> None:
    from workers.gate.profile import Profile, load_profile

    profile = load_profile(model) or Profile(model, "", {}, (), {})
    path = profile.force(settings).save()
    err.print(f"{'forced ' + json.dumps(settings) if settings else 'nothing is forced any more'}: {path}", markup=False)


def _show(model: str, as_json: bool) -> None:
    from workers.gate.profile import load_profile

    profile = load_profile(model)
    if profile is None:
        fail(f"{model} was never tuned on this machine; speechlane tune {model} does it")
    if as_json:
        typer.echo(json.dumps(profile.as_dict(), indent=1, sort_keys=True))
    else:
        _tell(profile)


def _tell(profile: Profile) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("option", "verdict", "faster", "why"):
        table.add_column(name, overflow="fold", justify="right" if name == "faster" else "left")
    for one in profile.evidence:
        faster = f"{one.bytes:.2f}x less" if one.gains == "bytes" and one.bytes else f"{one.gain:.2f}x"
        table.add_row(one.label, _verdict(one), faster if one.speed else "", "; ".join(one.reasons))
    out.print(table)
    from workers.gate.subject import label

    out.print(f"serves: {label(profile.chosen)}", markup=False)
    for settings in profile.forced:
        out.print(f"forced: {label(settings)}", markup=False)
    for taken in profile.rolled_back:
        out.print(f"taken back: {label(taken['settings'])}: {taken['reason']}", markup=False)


def _verdict(one: Evidence) -> str:
    return f"{one.verdict}{' (as it should)' if one.harmful and not one.passed else ''}"
