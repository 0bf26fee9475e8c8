"""POST /v1/text/explain, the joining of characters that were cut in two, and the gaps that listeners are spared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st

from gateway.metrics import Metrics
from gateway.speak.account import Account
from gateway.speak.fields import TextPieces, whole_text
from tests.gateway.speak.conftest import Running

TEXT = "Dr. Smith paid $3.50 for 12 kg 😀. Then he left."


async def explain(running: Running, **body: Any) -> tuple[int, dict[str, Any]]:
    async with ClientSession(running.http) as http, http.post("/v1/text/explain", data=json.dumps(body)) as answer:
        return answer.status, await answer.json()


async def test_every_token_knows_its_place_rule_and_phonemes(running: Running) -> None:
    status, body = await explain(running, input=TEXT, lexicon={"Smith": "smythe"})
    assert status == 200
    assert (body["object"], body["voice"], body["text"]) == ("text.explanation", "heart", TEXT)
    for token in body["tokens"]:
        assert TEXT[token["start"] : token["end"]] == token["written"]
        assert token["rule"] and token["phonemes"]
    said = {token["written"]: (token["spoken"], token["rule"]) for token in body["tokens"]}
    assert said["Dr."][0].lower() == "doctor"
    assert said["$3.50"] == ("three dollars and fifty cents", "money")
    assert said["Smith"] == ("smythe", "lexicon")
    assert [(one["written"], one["policy"]) for one in body["removed"]] == [("😀", "emoji")]
    assert "".join(segment["text"] for segment in body["segments"]) == TEXT
    assert len(body["segments"]) == 2
    named = await explain(running, input="Hi 😀", policy={"emoji": "name"})
    assert any("emoji" in token["rule"] for token in named[1]["tokens"])


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({}, "input", "missing_required_parameter"),
        ({"input": 5}, "input", "invalid_type"),
        ({"input": "x" * 16_385}, "input", "string_above_max_length"),
        ({"input": "x", "voice": "nobody"}, "voice", "invalid_value"),
        ({"input": "x", "policy": {"code": "run"}}, "policy.code", "invalid_value"),
        ({"input": "x", "lexicon": {"": "y"}}, "lexicon", "invalid_value"),
        ({"input": "x", "colour": 1}, "colour", "unknown_parameter"),
    ],
)
async def test_what_cannot_be_explained_is_refused_by_its_field(
    running: Running, body: dict[str, Any], param: str, code: str
) -> None:
    status, answer = await explain(running, **body)
    assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, param, code)


@pytest.mark.parametrize("text", ["", "\ud800", "😀", "\x00", "<b>你好</b>"], ids=ascii)
async def test_any_text_is_explained(running: Running, text: str) -> None:
    assert (await explain(running, input=text))[0] == 200


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("\ud83d\ude00")), st.lists(st.integers(0, 20)))
def test_pieces_of_utf_16_are_joined_however_they_were_cut(text: str, cuts: list[int]) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    pieces, first = TextPieces(), 0
    out = ""
    for cut in [*cuts, len(units)]:
        out += pieces.take(units[first : first + 2 * cut].decode("utf-16-le", "surrogatepass"))
        first += 2 * cut
    out += pieces.rest()
    assert out == units.decode("utf-16-le", "surrogatepass")
    shown = whole_text(out)
    assert len(shown) == len(out)
    shown.encode()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_gap_counts_when_the_text_was_there_in_time() -> None:
    clock, metrics = Clock(), Metrics()

    def gaps() -> float:
        (family,) = [one for one in metrics.registry.collect() if one.name == "speechlane_speech_underruns"]
        return sum(sample.value for sample in family.samples)

    account = Account(metrics, "live", clock)
    account.text("one two ")
    account.word(0)
    account.sound(1.0)
    clock.now += 0.9
    account.word(4)
    account.sound(2.0)
    assert gaps() == 0, "it was in time"
    clock.now += 1.3  # dry since 0.2 s, though the text was all there
    account.sound(3.0)
    assert gaps() == 1
    clock.now += 2.0  # dry, and the client gave no text
    account.text("three")
    clock.now += 0.3
    account.word(8)
    account.sound(4.0)
    assert gaps() == 1
    clock.now += 0.5
    account.held()
    clock.now += 3.0
    account.sound(5.0)
    assert gaps() == 1, "the client wanted a pause"
    account.played(4.0)  # the listener itself began late: 1 s is left
    clock.now += 0.9
    account.sound(6.0)
    assert gaps() == 1
    account.end("done")
    account.end("cancelled")
