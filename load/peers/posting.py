"""Clients of servers that hear no stream, only whole recordings over OpenAI's HTTP interface.

The client endpoints, as LiveKit's StreamAdapter does with such a server: after 550 ms without a voice it posts the
turn, with half a second of what was before it. The final is the answer.
"""

from __future__ import annotations

import io
from collections.abc import Mapping

import aiohttp
import soundfile

from load.peers.peer import FRAME, Said, Serving
from load.peers.turns import Turn, by_turns, until
from load.script import Script

SILENCE = 0.55


async def post_turns(serving: Serving, script: Script, fields: Mapping[str, str]) -> Said:
    """Say `script`, and post every turn with these fields."""
    said = Said(script, FRAME)
    async with aiohttp.ClientSession(raise_for_status=True) as session:

        async def hear(turn: Turn) -> str:
            await until(said, turn.known)
            file = io.BytesIO()
            soundfile.write(file, turn.samples(script), script.rate, format="WAV", subtype="PCM_16")
            form = aiohttp.FormData(dict(fields))
            form.add_field("file", file.getvalue(), filename="turn.wav", content_type="audio/wav")
            async with session.post(f"{serving.url}/v1/audio/transcriptions", data=form) as answer:
                return str((await answer.json())["text"])

        try:
            await by_turns(said, SILENCE, hear)
        except (aiohttp.ClientError, OSError) as error:
            said.problem = f"a turn was not heard: {error!r}"
    return said
