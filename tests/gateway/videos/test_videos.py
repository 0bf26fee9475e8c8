"""/v1/videos by the client that people use: made in the background, watched, fetched, deleted, and what is wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from jsonschema import Draft202012Validator

from tests.gateway.seeing import Seeing, seeing
from tests.vision_text.videos.untrained import write
from vision_text.media import ClipSource, look

VIDEOS = "/v1/videos"
PROMPT = "a red ball moving left"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Untrained, because what is seen makes no difference here."""
    return str(write(tmp_path_factory.mktemp("untrained")))


@pytest.fixture(scope="module")
def service(model: str) -> Iterator[Seeing]:
    with seeing(video_models=(model,), unproven_options=True, max_videos=4) as found:
        yield found


def asked(**more: Any) -> dict[str, Any]:
    return {"prompt": PROMPT, "steps": 3, "seed": 3, **more}


def created(service: Seeing, **more: Any) -> Any:
    status, video = service.ask("POST", VIDEOS, asked(**more))
    assert status == 200, video
    return video


def ended(service: Seeing, video: Any) -> Any:
    deadline = time.monotonic() + 30
    while video["status"] in ("queued", "in_progress"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
        video = service.ask("GET", f"{VIDEOS}/{video['id']}")[1]
    return video


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_openai_package(service: Seeing, model: str) -> None:
    client = service.openai()
    video = client.videos.create(prompt=PROMPT, model="sora-2", extra_body={"steps": 3, "seed": 3})
    assert (video.object, video.model, video.prompt) == ("video", model, PROMPT)
    assert video.status in ("queued", "in_progress")
    deadline = time.monotonic() + 60
    while video.status in ("queued", "in_progress") and time.monotonic() < deadline:
        time.sleep(0.05)
        video = client.videos.retrieve(video.id)
    assert (video.status, video.progress, video.error) == ("completed", 100, None)
    assert video.completed_at is not None and video.expires_at == video.completed_at + 3600
    notes = video.speechlane  # type: ignore[attr-defined]
    assert notes["seed"] == 3
    assert notes["approximation"]["evaluations"] == 6
    width, height = map(int, video.size.split("x"))
    source = ClipSource(client.videos.download_content(video.id).read())
    assert (source.info.frames, source.info.codec) == (notes["frames"], "h264")
    assert (source.info.width % width, source.info.height % height) == (0, 0)
    assert float(video.seconds) == pytest.approx(source.info.seconds, abs=0.02)
    assert look(client.videos.download_content(video.id, variant="thumbnail").read()).width == width
    assert next(one.id for one in client.videos.list(limit=1)) == video.id
    assert client.videos.delete(video.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.videos.retrieve(video.id)
    with pytest.raises(openai.BadRequestError, match="frames"):
        client.videos.create(prompt=PROMPT, seconds="500")  # type: ignore[arg-type]


def test_one_seed_is_one_clip_also_beside_others(service: Seeing) -> None:
    videos = [created(service, seed=seed) for seed in (3, 4, 3)]
    assert [ended(service, video)["status"] for video in videos] == ["completed"] * 3
    files = [service.ask("GET", f"{VIDEOS}/{video['id']}/content")[1] for video in videos]
    assert files[0] == files[2] != files[1]
    path = f"{VIDEOS}/{videos[0]['id']}/content"
    assert service.ask("GET", path, Range="bytes=4-7") == (206, files[0][4:8])
    assert service.ask("GET", path, Range="bytes=99999999-")[0] == 416


def test_it_is_watched(service: Seeing) -> None:
    video = created(service, previews=2, steps=6)
    events = list(service.events("GET", f"{VIDEOS}/{video['id']}/events"))
    assert {name for name, _ in events} == {"video"}
    shares = [data["progress"] for _, data in events]
    assert shares == sorted(shares)
    assert events[-1][1]["status"] == "completed"
    assert any("preview" in data["speechlane"] for _, data in events)
    again = list(service.events("GET", f"{VIDEOS}/{video['id']}/events"))
    assert [data["status"] for _, data in again] == ["completed"]


def test_deleting_stops_it_and_tells_who_watches(service: Seeing) -> None:
    video = created(service, steps=1000)
    waiting = created(service, steps=1000)
    path = f"{VIDEOS}/{video['id']}"
    status, answer = service.ask("GET", f"{path}/content")
    assert (status, answer["error"]["code"]) == (409, "not_ready")
    events = service.events("GET", f"{path}/events")
    assert next(events)[1]["id"] == video["id"]
    began = time.monotonic()
    assert service.ask("DELETE", path)[1] == {"id": video["id"], "object": "video.deleted", "deleted": True}
    assert service.ask("DELETE", f"{VIDEOS}/{waiting['id']}")[0] == 200
    assert [name for name, _ in events][-1] == "deleted"
    assert service.ask("GET", path)[0] == 404
    assert ended(service, created(service))["status"] == "completed"
    assert time.monotonic() - began < 15


def test_more_than_are_kept_and_more_than_may_wait(service: Seeing) -> None:
    videos = [ended(service, created(service, steps=1, seed=seed)) for seed in range(5)]
    kept = [video["id"] for video in service.ask("GET", VIDEOS)[1]["data"]]
    assert kept == [video["id"] for video in reversed(videos)][:4]  # the oldest has gone
    page = service.ask("GET", f"{VIDEOS}?limit=2&order=asc")[1]
    assert ([one["id"] for one in page["data"]], page["has_more"]) == ([kept[3], kept[2]], True)
    following = service.ask("GET", f"{VIDEOS}?order=asc&after={page['last_id']}")[1]
    assert ([one["id"] for one in following["data"]], following["has_more"]) == ([kept[1], kept[0]], False)
    waiting = [created(service, steps=1000) for _ in range(4)]
    status, answer = service.ask("POST", VIDEOS, asked())
    assert (status, answer["error"]["code"]) == (429, "overloaded")
    for video in waiting:
        service.ask("DELETE", f"{VIDEOS}/{video['id']}")


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 400, "prompt"),
        ({"prompt": " "}, 400, "prompt"),
        ({"prompt": "a" * 100_000}, 400, "prompt"),
        (asked(frames=0), 400, "frames"),
        (asked(frames=4000), 400, "frames"),
        (asked(seconds=0), 400, "seconds"),
        (asked(seconds="soon"), 400, "seconds"),
        (asked(seconds=3 * 3600), 400, "seconds"),
        (asked(seconds=1, frames=4), 400, "frames"),
        (asked(fps=0), 400, "fps"),
        (asked(size="17x16"), 400, "size"),
        (asked(size="large"), 400, "size"),
        (asked(steps=0), 400, "steps"),
        (asked(steps=10_000), 400, "steps"),
        (asked(guidance=-0.5), 400, "guidance"),
        (asked(interval=[1, 0]), 400, "interval"),
        (asked(options={"unheard": 1}), 400, "options"),
        (asked(options={"parallel": "ulysses"}), 400, "options.parallel"),
        (asked(previews=9), 400, "previews"),
        (asked(input_reference="data:image/png;base64,AAAA"), 400, "input_reference"),
        (asked(model="unknown"), 404, "model"),
        (b"[]", 400, None),
    ],
)
def test_what_cannot_be_filmed_is_said(service: Seeing, body: Any, status: int, param: str | None) -> None:
    found, answer = service.ask("POST", VIDEOS, body)
    assert (found, answer["error"]["param"]) == (status, param), answer


def form(*fields: tuple[str, str, bytes]) -> tuple[bytes, str]:
    """A multipart body of (name, more of its head, value), and its type."""
    body = b"".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + value + b"\r\n"
        for name, more, value in fields
    )
    return body + b"--x--\r\n", "multipart/form-data; boundary=x"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ([("seed", "", b"3")], "prompt"),
        ([("prompt", "", b"\xff")], "prompt"),
        ([("prompt", "", b"a"), ("prompt", "", b"b")], "prompt"),
        ([("prompt", "", b"a"), ("seed", "", b"three")], "seed"),
        ([("prompt", "", b"a"), ("options", "", b"{")], "options"),
        ([("prompt", "", b"a"), ("input_reference", '; filename="a.png"', b"...")], "input_reference"),
    ],
)
def test_forms_that_are_wrong(service: Seeing, fields: list[tuple[str, str, bytes]], param: str) -> None:
    body, kind = form(*fields)
    status, answer = service.ask("POST", VIDEOS, body, **{"Content-Type": kind})
    assert (status, answer["error"]["param"]) == (400, param), answer


def test_answers_are_as_the_document_says(model: str) -> None:
    def check(method: str, path: str, body: Any = None, at: str = "") -> Any:
        status, answer = service.ask(method, at or path, body)
        content = published["paths"][path][method.lower()]["responses"][str(status)]["content"]
        schema = {**content["application/json"]["schema"], "components": closed(published["components"])}
        Draft202012Validator(schema).validate(answer)
        return answer

    words = [{"role": "user", "content": "what is there"}]
    with seeing(chat_models=("shapes-vlm",), image_models=("shapes-image",), video_models=(model,)) as service:
        published = service.ask("GET", "/openapi.json")[1]
        check("POST", "/v1/chat/completions", {"messages": words, "max_tokens": 2})
        check("POST", "/v1/chat/completions", {"messages": []})
        check("POST", "/v1/images/generations", {"prompt": PROMPT, "steps": 1, "n": 2})
        check("POST", "/v1/images/generations", {"prompt": PROMPT, "model": "none"})
        check("POST", VIDEOS, {"prompt": ""})
        video = ended(service, check("POST", VIDEOS, asked(steps=1)))
        one, at = f"{VIDEOS}/{{video}}", f"{VIDEOS}/{video['id']}"
        check("GET", one, at=at)
        check("GET", VIDEOS)
        check("GET", f"{one}/content", at=f"{VIDEOS}/video_none/content")
        check("DELETE", one, at=at)
        check("GET", one, at=at)
        check("GET", "/v1/models")
        check("GET", "/readyz")


def closed(schema: Any) -> Any:
    """The same schema, in which no object has fields that are not named."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(part) for name, part in schema.items()}
    if "properties" in found and "anyOf" not in found:
        found.setdefault("additionalProperties", False)
    return found


def test_a_key_sees_its_own(model: str) -> None:
    with seeing(video_models=(model,), api_keys=("one", "two")) as service:
        assert service.ask("GET", VIDEOS)[0] == 401
        video = service.ask("POST", VIDEOS, asked(), key="one")[1]
        path = f"{VIDEOS}/{video['id']}"
        assert service.ask("GET", path, key="one")[0] == 200
        for method, at in (("GET", path), ("DELETE", path), ("GET", f"{path}/content"), ("GET", f"{path}/events")):
            assert service.ask(method, at, key="two")[0] == 404
        assert service.ask("GET", VIDEOS, key="two")[1]["data"] == []
        folder = service.service.videos._folder
    assert folder is None or not folder.exists()  # nothing is left of a service that has ended


def test_what_has_expired_goes(service: Seeing) -> None:
    video = ended(service, created(service, steps=1))
    videos = service.service.videos
    videos.find("", video["id"]).expires_at = time.time() - 1
    asyncio.run_coroutine_threadsafe(videos.sweep(), service.loop).result(5)
    assert service.ask("GET", f"{VIDEOS}/{video['id']}")[0] == 404
    assert not list(videos._folder.glob(f"{video['id']}*"))  # type: ignore[union-attr]
