"""Documents over the wire: a real service, real files, real models."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from aiohttp import FormData, web
from aiohttp.test_utils import TestClient, TestServer

from gateway.assistant.language_model import Ended, TextPiece, Wanted
from gateway.documents.answering import EXTRACTIVE, answer, cited
from gateway.documents.request import DocumentRequest
from load.made_pages import Put, column, drawn, pdf, saved
from tests.conftest import clean_environment
from vision_text.documents.page import Box
from vision_text.documents.passages import MOST_CHARACTERS, Found, Passage, passages_of
from workers.errors import InputInvalid

DELIVERY = "The machine is delivered within six weeks of the order. Abroad the buyer bears the cost of carriage."
WARRANTY = "The maker gives a warranty of three years on all moving parts. Batteries are covered for twelve months."


def page(heading: str, text: str) -> list[Put]:
    body, _ = column(text, font="Times-Roman", size=11, x=60, top=740, characters=70)
    return [Put("Helvetica-Bold", 16, 60, 780, heading), *body]


TERMS = pdf([page("Terms of delivery", DELIVERY), page("Warranty", WARRANTY)])


def post(url: str, path: str, file: bytes, **fields: str) -> tuple[int, Any, str]:
    """Status, JSON where it is JSON, and the body."""
    lines = [
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    ]
    head = '--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    body = "".join([*lines, head]).encode() + file + b"\r\n--b--\r\n"
    request = urllib.request.Request(url + path, body, {"Content-Type": "multipart/form-data; boundary=b"})
    try:
        with urllib.request.urlopen(request, timeout=100) as found:
            text = found.read().decode()
            return found.status, json.loads(text) if "json" in found.headers["Content-Type"] else None, text
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        return error.code, json.loads(text), text


def test_pages_come_with_their_text_and_where_it_is(service: str) -> None:
    status, found, _ = post(service, "/v1/documents", TERMS, lines="true")
    assert status == 200 and found["unread"] == []
    assert [one["source"] for one in found["pages"]] == ["text layer", "text layer"]
    assert " ".join(found["pages"][1]["text"].split()) == f"Warranty {WARRANTY}"
    heading = found["pages"][1]["regions"][0]
    left, top, right, bottom = heading["box"]
    assert left == pytest.approx(60, abs=2) and top < 842 - 780 < bottom + 1 and right < 200
    assert [word["text"] for word in heading["rows"][0][0]["words"]] == ["Warranty"]


def test_pages_are_streamed_as_they_are_read(service: str) -> None:
    status, _, text = post(service, "/v1/documents", TERMS, stream="true")
    events = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    assert status == 200
    assert [event["type"] for event in events] == ["document.page", "document.page", "document.done"]


def test_a_question_is_answered_with_its_page_and_place(service: str, tmp_path: Path) -> None:
    file = tmp_path / "terms.pdf"
    file.write_bytes(TERMS)
    command = [sys.executable, "-m", "gateway.cli", "documents", "ask", str(file), "How long is a battery covered?"]
    done = subprocess.run(
        [*command, "--json", "--url", service], capture_output=True, text=True, env=clean_environment(), check=True
    )
    found = json.loads(done.stdout)
    assert found["model"] == EXTRACTIVE and "twelve months" in found["answer"]
    (source,) = found["sources"]
    assert source["page"] == 2 and source["unit"] == "point" and source["box"][0] == pytest.approx(60, abs=2)
    said = subprocess.run(
        [*command, "--url", service], capture_output=True, text=True, env=clean_environment(), check=True
    )
    assert "[1] page 2, 60,4" in said.stdout.replace("60,5", "60,4") and "nearest passage" in said.stderr


SMALL = saved(drawn(TERMS, dpi=40))


@pytest.mark.parametrize(
    ("path", "file", "fields", "status", "param"),
    [
        ("/v1/documents", b"hello", {}, 400, "file"),
        ("/v1/documents", TERMS[:300], {}, 400, "file"),
        ("/v1/documents", b"", {}, 400, "file"),
        ("/v1/documents", TERMS, {"pages": "3"}, 400, "pages"),
        ("/v1/documents", TERMS, {"pages": "2-1"}, 400, "pages"),
        ("/v1/documents", TERMS, {"pages": "0"}, 400, "pages"),
        ("/v1/documents", TERMS, {"pages": "all"}, 400, "pages"),
        ("/v1/documents", TERMS, {"dpi": "1e9"}, 400, "dpi"),
        ("/v1/documents", TERMS, {"dpi": "nan"}, 400, "dpi"),
        ("/v1/documents", TERMS, {"ocr": "perhaps"}, 400, "ocr"),
        ("/v1/documents", TERMS, {"color": "red"}, 400, "color"),
        ("/v1/documents", TERMS, {"question": "what?"}, 400, "question"),
        ("/v1/documents/ask", TERMS, {}, 400, "question"),
        ("/v1/documents/ask", TERMS, {"question": " "}, 400, "question"),
        ("/v1/documents/ask", TERMS, {"question": "x" * 2001}, 400, "question"),
        ("/v1/documents/ask", TERMS, {"question": "x", "sources": "0"}, 400, "sources"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_name(
    service: str, path: str, file: bytes, fields: dict[str, str], status: int, param: str
) -> None:
    found = post(service, path, file, **fields)
    assert found[0] == status and found[1]["error"]["param"] == param, found


def test_pages_of_a_request() -> None:
    for text, expected in {"3": (3, 3), "3-7": (3, 7), "3-": (3, 0), " 2 - 4 ": (2, 4)}.items():
        assert DocumentRequest.parse({"pages": [text]}, asking=False).options.pages == expected
    with pytest.raises(InputInvalid):
        DocumentRequest.parse({"pages": ["3", "4"]}, asking=False)


def found(text: str, page: int = 1) -> Found:
    return Found(Passage(page, "point", Box(0, 0, 1, 1), text), 0.5)


class Model:
    """A language model that says one thing and remembers what it was asked."""

    name = "small-talk"

    def __init__(self, says: str) -> None:
        self.says = says
        self.asked: Wanted | None = None

    async def answer(self, wanted: Wanted):  # type: ignore[no-untyped-def]
        self.asked = wanted
        for piece in self.says.split(" "):
            yield TextPiece(piece + " ")
        yield Ended()

    async def close(self) -> None: ...


async def test_a_language_model_is_shown_the_passages_and_cites_them() -> None:
    model = Model("Twelve months [2].")
    made = await answer("How long?", [found("about delivery"), found("about batteries", 2)], model)
    assert (made.text, made.model, made.sources) == ("Twelve months [2].", "small-talk", (2,))
    assert model.asked is not None
    (said,) = model.asked.history
    assert "[2] (page 2)\nabout batteries" in said.text and said.text.endswith("Question: How long?")  # type: ignore[union-attr]
    assert (await answer("How long?", [], model)).sources == ()


def test_what_an_answer_cites() -> None:
    assert cited("So [2], and [1, 3].", 3) == (2, 1, 3)
    assert cited("No passage says so.", 3) == (1, 2, 3)
    assert cited("[0] [4] [99999] [2]", 3) == (2,)


def test_passages_keep_headings_with_their_text_and_are_not_too_long() -> None:
    from vision_text.documents.layout import lines_of, regions_of
    from vision_text.documents.page import Page, Source, Word

    words = [
        Word(text, Box(at * 30, row * 14 + (10 if row else 0), at * 30 + 28, row * 14 + 10 + (10 if row else 0)))
        for row in range(60)
        for at, text in enumerate(["A", "heading"] if row == 0 else ["words"] * 8)
    ]
    whole = Page(1, 600, 900, "point", Source.LAYER, tuple(regions_of(lines_of(words))))
    passages = passages_of([whole])
    assert passages[0].text.startswith("A heading\nwords")
    assert max(len(one.text) for one in passages) <= MOST_CHARACTERS + 100
    assert " ".join(" ".join(one.text for one in passages).split()) == " ".join(whole.text.split())


async def test_a_service_without_what_it_takes_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from gateway.app import build_app
    from gateway.documents import lane
    from gateway.settings import load_settings

    monkeypatch.setattr(lane, "find_spec", lambda name: None)

    async def never(settings: object) -> Any:
        await asyncio.Event().wait()

    app = build_app(load_settings(port=0), never)
    async with TestClient[web.Request, web.Application](TestServer(app)) as client:
        form = FormData()
        form.add_field("file", TERMS, filename="x")
        answered = await client.post("/v1/documents", data=form)
        assert answered.status == 501
        assert "speechlane[documents]" in (await answered.json())["error"]["message"]
