"""Who comes when, how long they stay, and when they talk."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

HOURS = 24
SHORTEST, LONGEST, TAIL = 120.0, 1800.0, 1.5
"""Of sessions, in seconds, and the exponent of their tail: half of them are over in three minutes, one in fifty lasts
longer than twenty-five, and the mean is 272 s."""
TALK, TALK_SPREAD, TALK_LEAST, TALK_MOST = 3.0, 0.7, 0.6, 25.0
"""Seconds of an utterance: the median, the deviation of its logarithm, and its bounds."""
PAUSE_LEAST, PAUSE = 0.8, 5.0
"""Seconds between two utterances: at least, and on average beyond that."""


@dataclass(frozen=True, slots=True)
class Day:
    """`hour`: virtual seconds of one of its hours. `peak`: sessions a second that come when most come."""

    hour: float
    peak: float

    @property
    def seconds(self) -> float:
        return HOURS * self.hour

    def rate(self, time: float) -> float:
        """Sessions a second."""
        return self.peak * shape(time / self.hour)

    def arrivals(self, dice: random.Random) -> Iterator[float]:
        """The moments at which sessions come: a Poisson process whose rate goes with the hour."""
        now = 0.0
        while True:
            now += dice.expovariate(self.peak)
            if now >= self.seconds:
                return
            if dice.random() * self.peak < self.rate(now):
                yield now


def shape(hour: float) -> float:
    """Of a day's arrivals, 1 where most come: least before four, most before one, and many until late."""
    slow, fast = math.cos(2 * math.pi * (hour - 14.5) / 24), math.cos(4 * math.pi * (hour - 10.5) / 24)
    return max(0.0, 0.55 + 0.38 * slow + 0.09 * fast) / _MOST


_MOST = 1.0
_MOST = max(shape(hour / 10) for hour in range(240))


def stay(dice: random.Random) -> float:
    """Seconds of a session: a Pareto distribution cut at `LONGEST`."""
    cut = 1.0 - (SHORTEST / LONGEST) ** TAIL
    return float(SHORTEST * (1.0 - cut * dice.random()) ** (-1.0 / TAIL))


def mean_stay() -> float:
    """Seconds."""
    cut = 1.0 - (SHORTEST / LONGEST) ** TAIL
    power = TAIL - 1.0
    return float(SHORTEST**TAIL / cut * TAIL / power * (SHORTEST**-power - LONGEST**-power))


def talk(dice: random.Random) -> float:
    """Seconds of an utterance."""
    return min(TALK_MOST, max(TALK_LEAST, dice.lognormvariate(math.log(TALK), TALK_SPREAD)))


def pause(dice: random.Random) -> float:
    """Seconds from one utterance to the next."""
    return PAUSE_LEAST + dice.expovariate(1.0 / PAUSE)
