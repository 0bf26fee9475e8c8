"""What is shown and asked to be made: bodies with media in them, chats, files of pictures and of clips."""

from __future__ import annotations

import base64
import io
import json
from functools import cache
from typing import Any

import numpy as np
from PIL import Image

from gateway.chat.messages import turns
from gateway.chat.request import ChatRequest
from gateway.images.request import ImageRequest
from gateway.speak.fields import json_number
from gateway.speak.request import checked
from gateway.videos.request import VideoRequest, read_request
from gateway.vision.body import parsed
from gateway.vision.fields import sides
from tests.fuzz.asked import request_with
from tests.fuzz.target import REFUSALS, refused, run, target, text_of
from vision_text.media.clips import ClipSource
from vision_text.media.data_urls import data_url
from vision_text.media.encode import clip_file, picture_file
from vision_text.media.limits import MediaLimits
from vision_text.media.pictures import look, open_picture
from vision_text.vlm.request import VisualBudget

LIMITS = MediaLimits(file_bytes=1 << 20, pixels=1_000_000, clip_seconds=60, clip_packets=500, decoded_pixels=20_000_000)
"""Small, so that what is refused by size is refused often, and one input does not take long."""


@cache
def frames() -> Any:
    """Twelve small frames in which something moves, (12, 16, 24, 3)."""
    made = np.zeros((12, 16, 24, 3), np.uint8)
    for number in range(12):
        made[number, 4:9, number : number + 5] = (200, 30, 30)
    return made


@cache
def pictures() -> tuple[bytes, ...]:
    """A small picture as many kinds of file."""
    still = frames()[3]
    files = [picture_file(still, "png"), picture_file(still, "jpeg", 60), picture_file(still, "webp", 80)]
    turned = Image.Exif()
    turned[0x0112] = 6
    kinds: tuple[tuple[Image.Image, str, dict[str, Any]], ...] = (
        (Image.fromarray(still), "GIF", {}),
        (Image.fromarray(still), "BMP", {}),
        (Image.fromarray(still), "TIFF", {"compression": "tiff_lzw"}),
        (Image.fromarray(still).convert("CMYK"), "JPEG", {}),
        (Image.fromarray(still).convert("P"), "PNG", {"transparency": 0}),
        (Image.fromarray(still[..., 0].astype(np.uint16) * 256), "PNG", {}),
        (Image.fromarray(still), "JPEG", {"exif": turned, "progressive": True}),
    )
    for picture, kind, how in kinds:
        buffer = io.BytesIO()
        picture.save(buffer, kind, **how)
        files.append(buffer.getvalue())
    return tuple(files)


@cache
def clips() -> tuple[bytes, ...]:
    """A small clip as an MP4 and as a GIF that moves."""
    buffer = io.BytesIO()
    shown = [Image.fromarray(one) for one in frames()]
    shown[0].save(buffer, "GIF", save_all=True, append_images=shown[1:], duration=80)
    return clip_file(frames()[:, :8, :8], 8.0), buffer.getvalue()


def url_of(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def chats() -> list[bytes]:
    picture, clip = url_of(pictures()[0]), url_of(clips()[0], "video/mp4")
    shown = {"type": "image_url", "image_url": {"url": picture, "detail": "low"}}
    about = [
        {"role": "system", "content": "You see shapes."},
        {"role": "user", "content": [{"type": "text", "text": "what is top left"}, shown]},
        {"role": "assistant", "content": "a red circle"},
        {"role": "user", "content": [{"type": "video_url", "video_url": {"url": clip}}, {"type": "text", "text": "?"}]},
    ]
    listed = [{"type": "video", "video": [picture, picture], "fps": 2}, {"type": "text", "text": "what moves"}]
    return [
        json.dumps({"model": "gpt-4o", "messages": about, "max_tokens": 9, "stop": ["."], "temperature": 0}).encode(),
        json.dumps(
            {"messages": [{"role": "user", "content": listed}], "budget": {"tokens_per_image": 9, "fps": 1.5},
             "options": {"kv": "int8"}, "stream": True, "stream_options": {"include_usage": True}}
        ).encode(),
    ]  # fmt: skip


@target("chat", chats, kind="json", words=("image_url", "video", "role", "budget", "data:", "fps"))
def chat(data: bytes) -> None:
    """Its messages are turns of text and places of media, or it is refused by the name of the field."""
    with refused(*REFUSALS):
        asked = checked(ChatRequest, parsed(data))
        for turn in turns(asked.messages):
            assert turn.role in ("system", "user", "assistant"), turn.role
            assert turn.parts


IMAGES = (
    '{"prompt":"a red circle","n":2,"size":"24x24","response_format":"b64_json","seed":7,"steps":4,"guidance":2.5,'
    '"interval":[0,0.6],"options":{"step_cache":["taylor",3,1]},"negative_prompt":"blue","stream":true,'
    '"partial_images":2,"output_format":"webp","output_compression":80}',
    '{"prompt":"x","model":"gpt-image-1","quality":"low","user":"u","background":"auto","exact":true,"seed":null}',
)


@target("images", IMAGES, kind="json", words=("size", "interval", "options", "auto", "24x24"))
def images(data: bytes) -> None:
    with refused(*REFUSALS):
        asked = checked(ImageRequest, parsed(data))
        width, height = sides(asked.size, (24, 24))
        assert width > 0 < height
        assert 0 <= asked.interval[0] <= asked.interval[1] <= 1


VIDEOS = (
    b'--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\na red ball\r\n--b\r\n'
    b'Content-Disposition: form-data; name="seconds"\r\n\r\n0.5\r\n--b\r\n'
    b'Content-Disposition: form-data; name="options"\r\n\r\n{"step_cache":["first_block",0.1]}\r\n--b--\r\n',
)


@target("videos", VIDEOS, words=("name=", "frames", "fps", "seconds", "--b", "filename="))
def videos(data: bytes) -> None:
    """A form that is sent as one whose boundary is b."""
    with refused(*REFUSALS):
        asked = run(_read(data))
        assert asked.prompt.strip()


async def _read(data: bytes) -> VideoRequest:
    return await read_request(request_with(data, {"Content-Type": "multipart/form-data; boundary=b"}))


@target("body_with_files", chats, kind="text", words=('"data:', '\\"', '"', "\\"))
def body_with_files(data: bytes) -> None:
    """A body whose files are taken out before it is parsed is read as one whose are not."""
    with refused(*REFUSALS):
        large = data.replace(b'"data:', b'"data:' + b"A" * 40_000, 2)
        found = parsed(large)
        try:
            whole = json.loads(
                large, strict=False, parse_float=json_number
            )  # what stands in a data URL is judged when it is unpacked
        except ValueError as error:
            raise AssertionError("what is no JSON was taken") from error
        taken = {name: value for name, value in whole.items() if value is not None}
        assert json.dumps(found, sort_keys=True) == json.dumps(taken, sort_keys=True) or b"\\u" in large


@target("data_url", [url_of(pictures()[0]), "data:,a%20b", "data:image/png;base64,QUI", "data:x;y;base64,QQ=="],
        kind="text", words=(";base64,", "data:", "%2B", "="))  # fmt: skip
def from_data_url(data: bytes) -> None:
    with refused(*REFUSALS):
        assert 0 < len(data_url(text_of(data), 4096, "messages[0].content[1].image_url.url")) <= 4096


@target("picture", pictures, words=("IHDR", "IDAT", "Exif", "RIFF", "WEBP", "acTL"), examples=80)
def picture(data: bytes) -> None:
    """Pixels of the size that its header told, or a refusal."""
    with refused(*REFUSALS):
        told = look(data, LIMITS)
        pixels = open_picture(data, LIMITS)
        assert pixels.dtype == np.uint8
        assert pixels.shape == (told.height, told.width, 3)
        assert told.width * told.height <= LIMITS.pixels


@target("clip", clips, words=("ftyp", "moov", "stts", "GIF89a", "mdat"), examples=30)
def clip(data: bytes) -> None:
    """As many frames as were planned, of the size that was planned, or a refusal."""
    with refused(*REFUSALS):
        source = ClipSource(data, LIMITS)
        plan = source.plan(VisualBudget(frames=3, max_pixels=10_000))
        found = source.frames(plan)
        assert found.shape == (len(plan.indices), plan.height, plan.width, 3)
