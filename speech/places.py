"""Where models run, as an operator writes it: the devices of an engine, and the place of a model among them.

    cpu            the processor                        tiny.en             on every device that is no group
    cuda:1         one GPU                              base@cuda:1         on that one alone
    cuda           every GPU                            base@cuda:0@cuda:1  a replica on each of these
    cuda:0,cuda:1  a replica of each model on both      clips@cuda:2+cuda:3 over both of a group
    cuda:2+cuda:3  a group, for a model that needs both

cpu:0,cpu:1 are two loops on the processor, each with its part of the cores.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_ONE = r"(?:cpu|cuda)(?::\d+)?"
_PLACE = re.compile(rf"{_ONE}(?:\+{_ONE})*")
_MOST = 64
"""Devices of one engine."""


@dataclass(frozen=True, slots=True)
class Place:
    """One step loop. `members` as torch names them: one device, or those of a group."""

    name: str
    members: tuple[str, ...]

    @property
    def group(self) -> bool:
        return len(self.members) > 1

    @property
    def torch_device(self) -> str:
        """What backends are loaded with: "cuda:0"; of a group "cuda:0+cuda:1"."""
        return "+".join(self.members)


def kind(wanted: str) -> str:
    """ "cpu" or "cuda", of devices as they are asked for."""
    return wanted.partition(",")[0].partition("+")[0].partition(":")[0].strip()


def usual(wanted: str) -> str:
    """The one device that stands for all of them where a model's measurements are looked up: "cpu", "cuda:1", or "cuda"
    for several."""
    found = kind(wanted)
    return found if found == "cpu" or "," in wanted or "+" in wanted else wanted.strip()


def places(wanted: str, gpus: Callable[[], int]) -> tuple[Place, ...]:
    """Those that are asked for; `gpus` counts what torch sees. Raises ValueError with the remedy."""
    found: list[Place] = []
    for part in (part.strip() for part in wanted.split(",")):
        if not _PLACE.fullmatch(part):
            raise ValueError(
                f'there is no device "{part}"; use "cpu", "cuda:0", for every GPU "cuda", and commas between several'
            )
        if part == "cuda":
            found += [Place(name, (name,)) for name in (f"cuda:{number}" for number in range(_counted(part, gpus)))]
            continue
        members = part.split("+")
        for member in members:
            if member.startswith("cuda"):
                _check(member, _counted(part, gpus))
        found.append(Place(part, tuple("cpu" if member.startswith("cpu") else member for member in members)))
    _check_together(wanted, found)
    return tuple(found)


def _counted(part: str, gpus: Callable[[], int]) -> int:
    count = gpus()
    if not count:
        raise ValueError(f'device "{part}" was asked for, but torch sees no GPU; use "cpu"')
    return count


def _check(member: str, count: int) -> None:
    number = member.partition(":")[2]
    if not number:
        raise ValueError(f'name the GPUs of a group, as in "cuda:0+cuda:1"; "{member}" is all of them')
    if int(number) >= count:
        raise ValueError(f'device "{member}" was asked for, but there is only cuda:0 to cuda:{count - 1}')


def _check_together(wanted: str, found: list[Place]) -> None:
    members = [member for place in found for member in place.name.split("+")]
    twice = next((member for member in members if members.count(member) > 1), None)
    if twice is not None:
        raise ValueError(f'"{twice}" is in {wanted!r} twice; a device has one loop, for all of its models')
    if len({member.partition(":")[0] for member in members}) > 1:
        raise ValueError(f"{wanted!r} mixes kinds: words would depend on the device; use GPUs alone, or the CPU alone")
    if len(found) > _MOST:
        raise ValueError(f"{len(found)} devices were asked for; an engine has at most {_MOST}")
    if all(place.group for place in found):
        raise ValueError(f'{wanted!r} is nothing but groups; speech needs a device of its own: "cuda:0,cuda:1+cuda:2"')


def placed(model: str) -> tuple[str, tuple[str, ...]]:
    """A model as it is asked for: its name, and the places behind it, () for everywhere."""
    where: list[str] = []
    while "@" in model:
        name, _, place = model.rpartition("@")
        if not _PLACE.fullmatch(place) or not name:
            break  # a path, or a name of the hub's, may have an @ as well
        where.insert(0, place)
        model = name
    return model, tuple(where)
