"""What is told of a run: the table, the JSON, the page, and what makes the command fail."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

from load.harness import page, results
from load.harness.calibration import Cost
from load.harness.results import Step
from load.harness.trial import MOST, Objective, Outcome, Unit
from load.harness.tts import BUFFERED, FIRST, UNDERRUNS, UTTERANCES
from load.harness.watch import Sight, Watched

OBJECTIVE = Objective(FIRST, 0.5)
COST = Cost(2, FIRST, 0.003, 0.001, 0.1, (), {})


def outcome(*latencies: float, lost: int = 0) -> Outcome:
    out = Outcome(2, admitted=2)
    for n, seconds in enumerate(latencies):
        out.took(FIRST, seconds)
        out.took("first byte", seconds / 2)
        out.end(Unit(n % 2, float(n), n + seconds, seconds > OBJECTIVE.seconds, 'a "text" & more'))
    for n in range(lost):
        out.end(Unit(0, float(n), None, True))
    out.counts |= {UTTERANCES: len(latencies), UNDERRUNS: 1, BUFFERED: 0}
    out.errors = [0.0, 10.0]
    out.watched = Watched(0.0, 10.0, [0.001] * 99, 0.2, [(0.01, 90.0), (0.02, 100.0), (float("inf"), 100.0)])
    out.watched.sights = [Sight(float(n), 0.5, 2, 100 << 20, 80 << 20, 0.7) for n in range(5)]
    return out


def test_a_table_has_a_column_for_each_number_of_clients() -> None:
    steps = [Step(2, 0, outcome(0.1, 0.2, 0.3), COST), Step(4, 0, outcome(0.1, 0.6))]
    found = {row[0]: row[1:] for row in results.rows(steps, OBJECTIVE)}
    assert {len(cells) for cells in found.values()} == {2}
    assert found["ended, late"] == ("3, 0", "2, 1")
    assert found[f"{FIRST} (bar 500)"][0] == "200 / 290 / 298"
    assert found["underruns"] == ("1 of 3", "1 of 2")
    assert found["word errors, mean / worst client"][0] == "5.0 / 10.0 %"
    assert found["service: event loop lag p50 / p99"][0] == "5.6 / 19.0"
    assert found["service: device busy, memory"][0] == "50 %, 100 MiB"
    assert found[f"client alone: {FIRST} p95"] == ("3.0", "-")
    assert found["the client is the limit"] == ("no", "no")


def test_what_makes_a_run_fail() -> None:
    good, late = Step(2, 0, outcome(0.1, 0.2)), Step(4, 0, outcome(0.6, 0.7))
    assert results.missed([good, late], OBJECTIVE, must_hold=False) == []
    (missed,) = results.missed([good, late], OBJECTIVE, must_hold=True)
    assert missed == f"4 clients: {FIRST} is 695 ms (p95); 500 was asked"
    late.outcome.refused = 1
    assert "1 were refused" in results.missed([late], OBJECTIVE, must_hold=True)[0]
    assert "nothing was measured" in results.missed([Step(1, 0, Outcome(1))], OBJECTIVE, must_hold=False)[0]
    for n in range(MOST + 5):
        good.outcome.wrong(f"problem {n}")
    missed_too = results.missed([good], OBJECTIVE, must_hold=False)
    assert len(missed_too) == MOST + 1 and "5 more" in missed_too[-1]


def test_json_holds_every_unit() -> None:
    told = json.loads(json.dumps(results.told(Step(2, 7, outcome(0.1, 0.6, lost=1), COST))))
    assert (told["ended"], told["late"], len(told["units"])) == (2, 1, 3)
    assert told["milliseconds"][FIRST]["p99"] > told["milliseconds"][FIRST]["p50"]
    assert told["calibration"]["own_p95"] == 3.0
    assert told["client_limited"] is False


class Links(HTMLParser):
    """Whatever a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.found += [value or "" for name, value in attributes if name in ("src", "href", "xlink:href")]


def test_the_page_shows_every_unit_and_loads_nothing(tmp_path: Path) -> None:
    slow = outcome(0.1, 0.6, lost=1)
    slow.limits.append("the client took 99 % of <it>")
    file = tmp_path / "run.html"
    steps = [Step(2, 0, outcome(0.1, 0.2, 0.3), COST), Step(4, 0, slow)]
    page.write(file, "tts", steps, OBJECTIVE, "a machine", ["4 clients: a <problem>"])
    text, links = file.read_text("utf-8"), Links()
    links.feed(text)
    assert links.found == ["data:,"]
    assert "script" not in links.tags
    assert links.tags.count("svg") == 5
    assert text.count("<circle") >= 5 and "never ended" in text
    assert "a &lt;problem&gt;" in text and "99 % of &lt;it&gt;" in text and "a &quot;text&quot; &amp; more" in text


def test_a_timeline_of_very_many_units_stays_readable() -> None:
    out = Outcome(1)
    for n in range(20_000):
        out.end(Unit(0, n / 100, n / 100 + (0.6 if n % 4000 == 0 else 0.1), n % 4000 == 0))
    drawn = page.timeline(out, OBJECTIVE)
    assert drawn.count("<circle") <= 4005
    assert drawn.count("600 ms") == 5  # all that are late
    assert "Nothing ended" in page.timeline(Outcome(1), OBJECTIVE)
