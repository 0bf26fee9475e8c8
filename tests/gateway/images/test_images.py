"""POST /v1/images/generations by the client that people use: pictures, parts of them, and all that is wrong."""

from __future__ import annotations

import base64
import io
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from PIL import Image
from typer.testing import CliRunner

from gateway.cli import app
from tests.gateway.seeing import Seeing, seeing

IMAGES = "/v1/images/generations"
PROMPT = "a red circle top left"


@pytest.fixture(scope="module")
def service() -> Iterator[Seeing]:
    with seeing(image_models=("shapes-image",), unproven_options=True) as found:
        yield found


def asked(**more: Any) -> dict[str, Any]:
    return {"prompt": PROMPT, "steps": 4, "seed": 3, **more}


def made(service: Seeing, **more: Any) -> Any:
    status, answer = service.ask("POST", IMAGES, asked(**more))
    assert status == 200, answer
    return answer


def opened(packed: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(packed)))


def test_the_openai_package(service: Seeing) -> None:
    client = service.openai()
    ours = {"seed": 3, "steps": 4}
    whole = client.images.generate(model="gpt-image-1", prompt=PROMPT, n=2, extra_body=ours)
    assert whole.data is not None and len(whole.data) == 2
    pictures = [opened(item.b64_json or "") for item in whole.data]
    assert all(picture.format == "PNG" and picture.size == (48, 48) for picture in pictures)
    assert whole.size == "48x48"
    notes = whole.speechlane["images"]  # type: ignore[attr-defined]
    assert [one["seed"] for one in notes] == [3, 4]
    assert [one["approximation"]["evaluations"] for one in notes] == [8, 8]
    assert np.asarray(pictures[0]).std() > 1

    parts = list(
        client.images.generate(model="gpt-image-1", prompt=PROMPT, stream=True, partial_images=2, extra_body=ours)
    )
    assert [part.type for part in parts] == ["image_generation.partial_image"] * 2 + ["image_generation.completed"]
    assert [part.partial_image_index for part in parts[:2]] == [0, 1]  # type: ignore[union-attr]
    assert all(opened(part.b64_json).size == (48, 48) for part in parts)
    assert parts[-1].b64_json == whole.data[0].b64_json  # the same seed, alone and with parts on the way
    assert parts[-1].speechlane["seed"] == 3  # type: ignore[union-attr]
    with pytest.raises(openai.BadRequestError, match="steps"):
        client.images.generate(model="gpt-image-1", prompt=PROMPT, extra_body={"steps": 10_000})
    with pytest.raises(openai.NotFoundError, match="shapes-image"):
        client.images.generate(model="unknown", prompt=PROMPT)


def test_one_seed_is_one_picture(service: Seeing) -> None:
    one, same, other = made(service), made(service), made(service, seed=4)
    assert one["data"] == same["data"]
    assert one["data"] != other["data"]
    first, second = made(service, n=2)["data"]
    assert [first, second] == [one["data"][0], other["data"][0]]
    unnamed = made(service, seed=None)["speechlane"]["images"][0]["seed"]
    assert made(service, seed=unnamed)["speechlane"]["images"][0]["seed"] == unnamed


def test_what_was_approximated_is_said(service: Seeing) -> None:
    def notes(**more: Any) -> dict[str, Any]:
        found: dict[str, Any] = made(service, **more)["speechlane"]["images"][0]["approximation"]
        return found

    plain = notes()
    assert (plain["evaluations"], plain["skipped"], plain["fallback"]) == (8, 0, None)
    cut = notes(interval=[0, 0.5])
    assert (cut["evaluations"], cut["skipped"]) == (6, 2)
    assert notes(interval=[0, 0.5], exact=True)["evaluations"] == 8
    assert notes(guidance=0)["evaluations"] == 4
    cached = notes(options={"step_cache": ["first_block", 0.5]})
    assert cached["cached_steps"] > 0
    assert cached["options"]["step_cache"] == ["first_block", 0.5]
    assert notes(options={"step_cache": ["first_block", 0.5]}, exact=True) == plain


def test_forms_of_files(service: Seeing) -> None:
    for kind, name in (("png", "PNG"), ("jpeg", "JPEG"), ("webp", "WEBP")):
        answer = made(service, output_format=kind, output_compression=80)
        assert answer["output_format"] == kind
        assert opened(answer["data"][0]["b64_json"]).format == name
    (item,) = made(service, response_format="url")["data"]
    assert item["url"].startswith("data:image/png;base64,")
    assert made(service, quality="hd", style="vivid", moderation="low", user="me", background="opaque")["data"]


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 400, "prompt"),
        ({"prompt": ""}, 400, "prompt"),
        ({"prompt": " \n"}, 400, "prompt"),
        ({"prompt": "a" * 100_000}, 400, "prompt"),
        ({"prompt": 5}, 400, "prompt"),
        (asked(negative_prompt="a" * 100_000), 400, "negative_prompt"),
        (asked(n=0), 400, "n"),
        (asked(n=11), 400, "n"),
        (asked(size="47x48"), 400, "size"),
        (asked(size="48"), 400, "size"),
        (asked(size="0x0"), 400, "size"),
        (asked(size="20000x20000"), 400, "size"),
        (asked(size="8192x8192"), 413, "size"),
        (asked(steps=0), 400, "steps"),
        (asked(steps=10_000), 400, "steps"),
        (asked(steps=1.5), 400, "steps"),
        (asked(guidance=-1), 400, "guidance"),
        (asked(guidance=float("inf")), 400, "guidance"),
        (asked(interval=[0.6, 0.2]), 400, "interval"),
        (asked(interval=[0, 2]), 400, "interval[1]"),
        (asked(interval=[0]), 400, "interval[1]"),
        (asked(seed=-1), 400, "seed"),
        (asked(response_format="file"), 400, "response_format"),
        (asked(output_format="gif"), 400, "output_format"),
        (asked(background="transparent"), 400, "background"),
        (asked(partial_images=4), 400, "partial_images"),
        (asked(options={"unheard": 1}), 400, "options"),
        (asked(options={"precision": "int0"}), 400, "options.precision"),
        (asked(options=[1]), 400, "options"),
        (asked(more=1), 400, "more"),
        (b'{"prompt": ', 400, None),
        (b'{"prompt": "' + b"a" * 2_000_000 + b'"}', 413, None),
    ],
)
def test_what_cannot_be_drawn_is_said(service: Seeing, body: Any, status: int, param: str | None) -> None:
    found, answer = service.ask("POST", IMAGES, body)
    assert (found, answer["error"]["param"]) == (status, param), answer
    found, answer = service.ask("POST", IMAGES, body | {"stream": True} if isinstance(body, dict) else body)
    assert (found, answer["error"]["param"]) == (status, param), answer  # before anything is streamed


def test_several_are_streamed_side_by_side(service: Seeing) -> None:
    events = list(service.events("POST", IMAGES, asked(n=3, stream=True, partial_images=1)))
    done = {data["index"]: data for name, data in events if name == "image_generation.completed"}
    assert set(done) == {0, 1, 2}
    assert [done[n]["speechlane"]["seed"] for n in range(3)] == [3, 4, 5]
    assert sum(name == "image_generation.partial_image" for name, _ in events) == 3


def test_who_hangs_up_frees_the_device(service: Seeing) -> None:
    body = json.dumps(asked(n=4, steps=1000)).encode()
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = f"POST {IMAGES} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.3)
    began = time.monotonic()
    made(service)
    assert not service.service.vision.drawing._taken
    assert time.monotonic() - began < 8


def test_it_is_counted_and_listed(service: Seeing) -> None:
    text = service.ask("GET", "/metrics")[1].decode()
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("speechlane_"))
    assert float(figures['speechlane_made_total{kind="image",outcome="done"}']) > 0
    assert float(figures['speechlane_made_total{kind="image",outcome="cancelled"}']) >= 4
    assert float(figures['speechlane_evaluations_total{kind="image",what="skipped"}']) >= 2
    models = {model["id"]: model for model in service.ask("GET", "/v1/models")[1]["data"]}
    assert models["shapes-image"]["loaded"]
    assert service.ask("GET", "/v1/models/dall-e-3")[1]["task"] == "image"


def test_options_have_to_be_proven() -> None:
    with seeing(image_models=("shapes-image",)) as service:
        status, answer = service.ask("POST", IMAGES, asked(options={"precision": "int4"}))
        assert (status, answer["error"]["code"], answer["error"]["param"]) == (400, "option_unproven", "options")
        assert "unproven_options" in answer["error"]["message"]
    with seeing() as service:
        assert service.ask("POST", IMAGES, asked())[0] == 501


def run(*arguments: str) -> tuple[int, str]:
    """Exit status and output of a command."""
    found = CliRunner().invoke(app, arguments)
    return found.exit_code, found.output


def test_imagine_here_and_at_a_service_makes_the_same(service: Seeing, tmp_path: Path) -> None:
    drawn = ("imagine", PROMPT, "--steps", "4", "--seed", "3", "--json")
    here, there = tmp_path / "here.png", tmp_path / "there.webp"
    status, output = run(*drawn, "-o", str(here))
    assert status == 0, output
    assert json.loads(output)["approximation"]["evaluations"] == 8
    status, output = run(*drawn, "-o", str(there), "-n", "2", "--url", service.url)
    assert status == 0, output
    files = [json.loads(line)["file"] for line in output.splitlines()]
    assert files == [str(tmp_path / "there-1.webp"), str(tmp_path / "there-2.webp")]
    np.testing.assert_array_equal(np.asarray(Image.open(files[0])), np.asarray(Image.open(here)))
    for wrong, said in (
        (("-o", "a.gif"), ".png"),
        (("--interval", "x"), "--interval"),
        (("--steps", "10000", "--url", service.url), "steps"),
        (("--size", "47x47", "--url", service.url), "width is 47"),
        (("--url", "http://127.0.0.1:1"), "speechlane serve"),
    ):
        status, output = run("imagine", PROMPT, *wrong)
        assert status != 0
        assert said in output
