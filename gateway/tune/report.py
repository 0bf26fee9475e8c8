"""The report of a trial: one HTML file that loads nothing and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from gateway.tune.plots import Dot, png, scatter
from workers.gate.effect import Effect
from workers.gate.evidence import Evidence, Verdict
from workers.gate.profile import Profile
from workers.gate.subject import Showing, label
from workers.gate.thresholds import Thresholds
from workers.gate.trial import Gate

SHOWN = 6
"""Pairs of pictures of each option: the items that differ most."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c1f22;--soft:#62686e;--line:#dcdad4;--ground:#faf9f6;--card:#fff;--good:#1a7f4b;
--bad:#b3261e;--mid:#9a6700}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e3;--soft:#9aa0a6;--line:#34383c;--ground:#151719;--card:#1d2023;
--good:#5fd08f;--bad:#ff8a80;--mid:#e3b341}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:70rem;padding:1.5rem;font:16px/1.5 system-ui,sans-serif;color:var(--ink);
background:var(--ground)}
h1{font-size:1.6rem;margin:0 0 .3rem}h2{font-size:1.2rem;margin:2.2rem 0 .6rem}h3{font-size:1rem;margin:1.4rem 0 .4rem}
p{margin:.3rem 0}.soft,small{color:var(--soft)}
.scrolled{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:.6rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.45rem .7rem;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child>*{border-bottom:0}td.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.passed{color:var(--good);fill:var(--good);stroke:var(--good)}.harmful,.leaks,.failed{color:var(--bad);fill:var(--bad);
stroke:var(--bad)}.other{color:var(--mid);fill:var(--mid);stroke:var(--mid)}.control{color:var(--soft);fill:none;
stroke:var(--soft);stroke-width:2}
td.passed,td.harmful,td.leaks,td.failed,td.other{stroke:none;font-weight:600}
figure{margin:.8rem 0;background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.6rem}
svg{width:100%;max-width:48rem;display:block}svg text{fill:var(--soft);font-size:11px}.grid{stroke:var(--line)}
.bar{stroke:var(--bad);stroke-dasharray:5 4}.spread{stroke-width:2;opacity:.5}
.pairs{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:.8rem}
.pair{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.6rem;font-size:.85rem}
.pair div{display:flex;gap:.4rem;align-items:flex-start}.pair img{max-width:100%;flex:1 1 0;min-width:0;
image-rendering:pixelated}code{font-size:.85em;overflow-wrap:anywhere}
"""


def report(gate: Gate, profile: Profile) -> str:
    """The page."""
    subject, bars = gate.subject, gate.bars
    chosen = label(profile.chosen) if profile.chosen else "nothing: the reference serves"
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    at = max((one.at for one in profile.evidence), default=0.0)
    body = [
        f"<h1>{escape(profile.model)}: what its options are worth here</h1>",
        f"<p>Chosen: <strong><code>{escape(chosen)}</code></strong></p>",
        f'<p class="soft">{escape(subject.modality)}, {len(gate.items)} items, seed {gate.seed}, '
        f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(at))}; thresholds {escape(bars.digest)}</p>",
        "<h2>Verdicts</h2>", _verdicts(profile.evidence),
        "<h2>Quality against speed</h2>",
        '<p class="soft">Lines are the spread of the rounds. Rings are the plain way (fewer steps, less to look at) at '
        "the same measured cost. The dashed line is the bar.</p>",
        *_plots(profile.evidence, bars, subject.modality),
        "<h2>Measures</h2>", _measures(profile.evidence),
        "<h2>Together</h2>", _together(profile.together),
        *_pictures(gate, profile.evidence),
        "<h2>What this rests on</h2>", _identity(profile.identity),
        "<h2>Thresholds</h2>", _thresholds(bars, subject.modality),
    ]  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(profile.model)} – tuned</title><style>{STYLE}</style></head><body>"
        + "\n".join(body)
        + "</body></html>\n"
    )


def kind(verdict: Verdict) -> str:
    """The style's class."""
    return str(verdict) if verdict in (Verdict.PASSED, Verdict.HARMFUL, Verdict.LEAKS, Verdict.FAILED) else "other"


def _verdicts(evidence: Sequence[Evidence]) -> str:
    rows = []
    for one in evidence:
        told = f"{one.label}" + (" (made to be caught)" if one.harmful else "")
        spread = f"{one.speed['low']:.2f} to {one.speed['high']:.2f}" if one.speed else ""
        control = f"{label(one.control)}: {one.control_speed:.2f}×" if one.control and one.control_speed else "none"
        cells = [
            f'<th scope="row"><code>{escape(told)}</code></th>', f'<td class="{kind(one.verdict)}">{one.verdict}</td>',
            f'<td class="number">{one.gain:.2f}×<br><small>{spread}</small></td>' if one.speed else "<td></td>",
            f'<td class="number">{f"{one.bytes:.2f}×" if one.bytes else ""}</td>',
            f"<td>{escape('; '.join(one.reasons) or 'passes in everything')}</td>",
            f"<td><small>{escape(str(Effect(one.effect)))}</small></td>", f"<td><small>{escape(control)}</small></td>",
        ]  # fmt: skip
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return _table(("Option", "Verdict", "Faster", "Less held", "Why", "What ran otherwise", "Plain way"), rows)


def _plots(evidence: Sequence[Evidence], bars: Thresholds, modality: str) -> list[str]:
    found = []
    names = sorted({name for one in evidence for name in one.measures})
    for name in names:
        bar = bars.of(modality)[name]
        worst = bar.worst is not None
        dots, base = [], None
        for one in evidence:
            measured = one.measures.get(name)
            if measured is None or one.speed is None:
                continue
            base = measured.reference
            y = measured.worst if worst else measured.candidate
            dots.append(Dot(one.gain, y, one.label, kind(one.verdict), one.speed["low"], one.speed["high"]))
            theirs = measured.control_worst if worst else measured.control
            if theirs is not None and one.control and one.control_speed:
                dots.append(Dot(one.control_speed, theirs, f"{label(one.control)} (plain way)", "control"))
        at = bar.worst if worst else (base - bar.loss if base is not None and bar.loss is not None else None)
        told = f"{name}, worst twentieth" if worst else name
        found.append(f"<figure>{scatter(dots, x_name='times faster', y_name=told, bar=at)}</figure>")
    return found


def _measures(evidence: Sequence[Evidence]) -> str:
    rows = []
    for one in evidence:
        for name, m in one.measures.items():
            test = m.paired
            against = (
                f"{m.control:.4f}, worst {m.control_worst:.3f}"
                if m.control is not None and m.control_worst is not None
                else ""
            )
            numbers = (f"{m.reference:.4f}", f"{m.candidate:.4f}", f"{m.worst:.4f}", f"{test['loss']:+.4f}",
                       f"{test['least']:+.4f} to {test['most']:+.4f}", f"{test['worse']} / {test['better']}",
                       f"{test['p']:.3g}", against)  # fmt: skip
            cells = "".join(f'<td class="number">{escape(text)}</td>' for text in numbers)
            rows.append(f'<tr><th scope="row"><code>{escape(one.label)}</code></th><td>{escape(name)}</td>{cells}</tr>')
    heads = ("Option", "Measure", "Reference", "Option's", "Worst twentieth", "Loss", "Bounds", "Worse / better", "p",
             "Plain way's")  # fmt: skip
    return _table(heads, rows)


def _together(pairs: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        f'<tr><th scope="row"><code>{escape(" + ".join(one["options"]))}</code></th><td>{escape(one["rule"])}</td>'
        f"<td>{escape(one['verdict'] or 'not needed')}</td><td>{escape(one['why'])}</td></tr>"
        for one in pairs
    ]
    return _table(("Options", "Rule", "Trial", "Why"), rows)


def _pictures(gate: Gate, evidence: Sequence[Evidence]) -> list[str]:
    """Side by side: what the reference made and what the option made, where they differ most."""
    subject = gate.subject
    reference = gate.outputs.get("reference", [])
    if not isinstance(subject, Showing) or not reference:
        return []
    found = [
        "<h2>Side by side</h2>",
        '<p class="soft">Left the reference, right the option; where they differ most.</p>',
    ]
    for one in evidence:
        made = gate.outputs.get(one.label)
        if not made:
            continue
        pairs = []
        for n in _differing(subject, reference, made)[:SHOWN]:
            left, right = (_shown(subject.show(output)) for output in (reference[n], made[n]))
            pairs.append(
                f'<div class="pair"><p>{escape(subject.caption(gate.items[n]))}</p><div>{left}{right}</div></div>'
            )
        found.append(
            f'<h3><code>{escape(one.label)}</code> <span class="{kind(one.verdict)}">{one.verdict}</span></h3>'
        )
        found.append(f'<div class="pairs">{"".join(pairs)}</div>')
    return found


def _differing(subject: Showing, reference: Sequence[Any], made: Sequence[Any]) -> list[int]:
    def apart(n: int) -> float:
        a, b = subject.show(reference[n]), subject.show(made[n])
        if isinstance(a, str) or isinstance(b, str):
            return float(a != b) if isinstance(a, str) and isinstance(b, str) else 1.0
        return float(np.abs(a.astype(np.int16) - b).mean()) if a.shape == b.shape else 1e9

    return sorted(range(min(len(reference), len(made))), key=lambda n: (-apart(n), n))


def _shown(output: Any) -> str:
    return f"<p>{escape(output)}</p>" if isinstance(output, str) else f'<img src="{png(output)}" alt="">'


def _identity(identity: Mapping[str, str]) -> str:
    rows = [f'<tr><th scope="row">{escape(a)}</th><td><code>{escape(b)}</code></td></tr>' for a, b in identity.items()]
    return _table(("What", "Which"), rows)


def _thresholds(bars: Thresholds, modality: str) -> str:
    rows = []
    for name, one in bars.of(modality).items():
        told = [f"mean loses {one.loss:g} at most, surely {one.bound:g}"] if one.loss is not None else []
        told += [f"worst twentieth {one.worst:g} at least"] if one.worst is not None else []
        bar = escape("; ".join(told) or "shown only")
        rows.append(f'<tr><th scope="row">{escape(name)}</th><td>{bar}</td><td>{escape(one.why)}</td></tr>')
    speed = f"{bars.speed.least:g}× faster at least, surely; or less held and at most {bars.speed.slowest:g}× slower"
    rows.append(f'<tr><th scope="row">speed</th><td>{escape(speed)}</td><td></td></tr>')
    return _table(("Measure", "Bar", "Why"), rows)


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(rows) or f'<tr><td colspan="{len(heads)}">none</td></tr>'
    return f'<div class="scrolled"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
