"""Pictures as people and attackers send them: upright RGB of eight bits comes out, or a refusal that says why."""

from __future__ import annotations

import base64
import io
import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from vision_text.media import LIMITS, MediaLimits, data_url, look, open_picture, picture_file, within
from workers.errors import InputInvalid, InputTooLarge


def saved(picture: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def quarters() -> Image.Image:
    """Red, green, blue and white, from the top left on; twice as wide as high."""
    pixels = np.zeros((16, 32, 3), np.uint8)
    pixels[:8, :16], pixels[:8, 16:], pixels[8:, :16], pixels[8:, 16:] = (255, 0, 0), (0, 255, 0), (0, 0, 255), 255
    return Image.fromarray(pixels)


def png_head(width: int, height: int, depth: int = 8, kind: int = 2) -> bytes:
    """A PNG whose header claims this much, and that holds a line of nothing."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    body = zlib.compress(bytes(100))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_each_kind_of_file(kind: str) -> None:
    options = {"JPEG": {"quality": 95, "subsampling": 0}, "WEBP": {"lossless": True}}.get(kind, {})
    data = saved(quarters(), kind, **options)
    pixels = open_picture(data)
    assert (pixels.shape, pixels.dtype) == ((16, 32, 3), np.uint8)
    np.testing.assert_allclose(pixels.astype(int), np.asarray(quarters()).astype(int), atol=8)
    assert (look(data).width, look(data).height) == (32, 16)


@pytest.mark.parametrize("turn", range(1, 9))
def test_a_photograph_is_turned_as_its_camera_was_held(turn: int) -> None:
    back = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    lying = quarters().transpose(back[turn]) if turn in back else quarters()
    exif = Image.Exif()
    exif[0x0112] = turn
    data = saved(lying, "PNG", exif=exif)
    np.testing.assert_array_equal(open_picture(data), np.asarray(quarters()))
    assert (look(data).width, look(data).height) == (32, 16)


def test_sixteen_bits_are_scaled_and_not_cut_off() -> None:
    ramp = np.linspace(0, 65_535, 64, dtype=np.uint16).reshape(1, 64).repeat(8, axis=0)
    for kind in ("PNG", "TIFF"):
        pixels = open_picture(saved(Image.fromarray(ramp), kind))
        np.testing.assert_array_equal(pixels[0, :, 0], (ramp[0] >> 8).astype(np.uint8))
        assert (pixels[..., 0] == pixels[..., 2]).all()
    with pytest.raises(InputInvalid, match="floating-point"):
        open_picture(saved(Image.fromarray(np.ones((4, 4), np.float32)), "TIFF"))


def test_cmyk_grey_palettes_and_transparency() -> None:
    ink = open_picture(saved(quarters().convert("CMYK"), "JPEG", quality=95, subsampling=0))
    assert np.abs(ink.astype(int) - np.asarray(quarters()).astype(int)).max() < 40
    assert open_picture(saved(quarters().convert("1"), "PNG")).shape == (16, 32, 3)
    assert open_picture(saved(quarters().convert("LA"), "PNG")).shape == (16, 32, 3)
    np.testing.assert_array_equal(open_picture(saved(quarters().convert("P"), "PNG")), np.asarray(quarters()))
    glass = quarters().convert("RGBA")
    glass.putalpha(0)
    assert (open_picture(saved(glass, "PNG")) == 255).all()
    drawn = Image.new("P", (4, 4), 1)
    drawn.putpalette([255, 0, 0, 0, 0, 255])
    assert (open_picture(saved(drawn, "GIF", transparency=1)) == 255).all()


def test_one_pixel_is_a_picture() -> None:
    assert open_picture(saved(Image.new("RGB", (1, 1), "red"), "PNG")).tolist() == [[[255, 0, 0]]]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello, I am no picture",
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a",
        b"\xff\xd8\xff",
        b"%PDF-1.7 ...",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n",
        b"RIFF\x00\x00\x00\x00WEBPVP8 " + bytes(40),
        png_head(0, 10),
    ],
    ids=lambda data: repr(data[:12]),
)
def test_what_is_no_picture(data: bytes) -> None:
    with pytest.raises(InputInvalid) as refused:
        open_picture(data, name="messages[0].content[1]")
    assert refused.value.param == "messages[0].content[1]"
    assert refused.value.message.startswith("messages[0].content[1] is ")
    assert "0x" not in refused.value.message  # no address of an object


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF"])
def test_what_is_cut_off_is_not_made_up(kind: str) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8))
    data = saved(noise, kind)
    for end in (len(data) // 4, len(data) // 2, len(data) * 9 // 10):
        with pytest.raises(InputInvalid):
            open_picture(data[:end])


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_damage_anywhere_is_refused_or_harmless() -> None:
    random = np.random.default_rng(1)
    noise = Image.fromarray(random.integers(0, 255, (24, 24, 3), np.uint8))
    for kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"):
        data = saved(noise, kind)
        for _ in range(40):
            hurt = bytearray(data)
            for at in random.integers(0, len(hurt), 6):
                hurt[at] = random.integers(0, 256)
            try:
                assert open_picture(bytes(hurt)).shape[2] == 3
            except (InputInvalid, InputTooLarge) as error:
                assert error.param == "image"


def test_animations_are_refused_and_photographs_with_previews_are_not() -> None:
    many = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    for kind in ("GIF", "PNG", "WEBP", "TIFF"):
        with pytest.raises(InputInvalid, match="several pictures"):
            open_picture(saved(many[0], kind, save_all=True, append_images=many[1:]))
    assert open_picture(saved(many[0], "MPO", save_all=True, append_images=many[1:])).shape == (8, 8, 3)


def webp_head(width: int, height: int) -> bytes:
    canvas = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + (10).to_bytes(4, "little") + bytes(4) + canvas + bytes(20)
    return b"RIFF" + len(body).to_bytes(4, "little") + body


@pytest.mark.parametrize(
    "data",
    [
        png_head(20_000, 20_000),
        png_head(100_000, 1),
        png_head(9000, 9000, 16, 6),
        webp_head(16_384, 16_384),
        b"GIF89a" + struct.pack("<HH", 65_535, 65_535) + bytes(3) + b"," + struct.pack("<HHHH", 0, 0, 65_535, 65_535)
        + bytes(20),
        b"BM" + bytes(12) + struct.pack("<IiiHHIIiiII", 40, 30_000, 30_000, 1, 24, 0, 0, 0, 0, 0, 0) + bytes(40),
    ],
    ids=["png", "wide", "deep", "webp", "gif", "bmp"],
)  # fmt: skip
def test_bombs_are_refused_before_they_go_off(data: bytes) -> None:
    open_picture(saved(quarters(), "PNG"))  # what the library needs by itself
    tracemalloc.start()
    try:
        with pytest.raises(InputTooLarge):
            open_picture(data)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_a_bomb_of_text_and_one_of_scans() -> None:
    text = zlib.compress(bytes(50_000_000))
    body = b"Comment\x00\x00" + text
    chunk = struct.pack(">I", len(body)) + b"zTXt" + body + struct.pack(">I", zlib.crc32(b"zTXt" + body))
    whole = saved(quarters(), "PNG")
    with pytest.raises(InputInvalid):
        open_picture(whole[:33] + chunk + whole[33:])
    jpeg = saved(quarters(), "JPEG", progressive=True)
    start = jpeg.index(b"\xff\xda")
    with pytest.raises(InputTooLarge, match="scans"):
        open_picture(jpeg[:-2] + jpeg[start:-2] * 200 + jpeg[-2:])


def test_limits_are_those_given() -> None:
    data = saved(quarters(), "PNG")
    with pytest.raises(InputTooLarge, match="32 x 16"):
        open_picture(data, MediaLimits(pixels=511))
    with pytest.raises(InputTooLarge, match="larger than 10 bytes"):
        open_picture(data, MediaLimits(file_bytes=10))
    assert open_picture(data, MediaLimits(pixels=512)).shape == (16, 32, 3)


def test_a_picture_is_made_smaller_only_where_it_has_to_be() -> None:
    pixels = np.asarray(quarters())
    assert within(pixels, 512) is pixels
    assert within(pixels, 128).shape == (8, 16, 3)
    assert within(np.zeros((1, 1000, 3), np.uint8), 1).shape == (1, 31, 3)


@pytest.mark.parametrize("turn", [1, 6])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_it_is_made_smaller_while_it_is_opened(kind: str, turn: int) -> None:
    large = quarters().resize((640, 320), Image.Resampling.NEAREST)
    exif = Image.Exif()
    exif[0x0112] = turn
    lying = large.transpose(Image.Transpose.ROTATE_90) if turn == 6 else large
    data = saved(lying, kind, exif=exif)
    pixels = open_picture(data, most_pixels=32 * 16)
    assert pixels.shape == (16, 32, 3)
    assert np.abs(pixels.astype(int) - np.asarray(quarters()).astype(int)).mean() < 20
    assert open_picture(data, most_pixels=640 * 320).shape == (320, 640, 3)


def test_files_that_leave() -> None:
    pixels = np.asarray(quarters())
    np.testing.assert_array_equal(open_picture(picture_file(pixels)), pixels)
    np.testing.assert_array_equal(open_picture(picture_file(pixels, "webp", 100)), pixels)
    assert look(picture_file(pixels, "jpeg", 0)).format == "JPEG"


def test_data_urls() -> None:
    packed = base64.b64encode(b"\xfb\xef\xbe" * 5).decode()
    for url in (
        f"data:image/png;base64,{packed}",
        f"data:;base64,{packed}",
        f"data:image/png;name=a;BASE64,{packed}",
        f"data:image/png;base64,{packed.replace('+', '%2B').replace('/', '%2F')}",
    ):
        assert data_url(url, 100, "url") == b"\xfb\xef\xbe" * 5
    assert data_url("data:image/png;base64,QQ", 100, "url") == b"A"
    assert data_url("data:text/plain,a%20b", 100, "url") == b"a b"
    for url in ("data:", "data:image/png;base64", "data:;base64,", "data:;base64,a*b", "data:;base64,Ä", "data:,"):
        with pytest.raises(InputInvalid) as refused:
            data_url(url, 100, "url")
        assert refused.value.param == "url"
    with pytest.raises(InputTooLarge):
        data_url("data:;base64," + "A" * LIMITS.file_bytes * 2, LIMITS.file_bytes, "url")
