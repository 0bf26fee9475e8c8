"""`speechlane documents`: what a PDF or a picture says, and answers to questions about it, from a running service."""

from __future__ import annotations

import json
import mimetypes
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli.console import err, fail, out
from speechlane.client.errors import ClientError

app = typer.Typer(no_args_is_help=True, help="Read PDFs and pictures, and ask questions about them.")

READ_HELP = """Print the text of a PDF or a picture: its text layer, or read from the picture where there is none.

Examples:

  speechlane documents read contract.pdf

  speechlane documents read scan.png --json | jq '.pages[0].regions[].box'

  speechlane documents read book.pdf --pages 10-20 --ocr -o book.txt
"""
ASK_HELP = """Answer a question about a document, with the page and the place on it that the answer comes from.

The service answers with its language model (--assistant-url of speechlane serve); without one it gives the passage
that is nearest to the question.

Examples:

  speechlane documents ask contract.pdf "How long is the notice period?"
"""
TIMEOUT = 3600.0

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="PDF, PNG, JPEG, WebP or TIFF.", exists=True, dir_okay=False)
]
Pages = Annotated[str | None, typer.Option(help="Only these: 3, 3-7 or 3-.")]
Ocr = Annotated[bool, typer.Option("--ocr", help="Read the pictures of the pages even where the file has text.")]
Password = Annotated[str | None, typer.Option(help="Of an encrypted PDF.", envvar="SPEECHLANE_PDF_PASSWORD")]
Url = Annotated[str, typer.Option(help="The service.", envvar="SPEECHLANE_URL")]
Key = Annotated[str | None, typer.Option(help="API key; better given in the variable.", envvar="SPEECHLANE_API_KEY")]
HERE = "http://127.0.0.1:8700"


@app.command("read", help=READ_HELP)
def read_command(
    file: File,
    pages: Pages = None,
    ocr: Ocr = False,
    password: Password = None,
    output: Annotated[Path | None, typer.Option("--out", "-o", help="Write it here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything: regions, places, confidences.")] = False,
    url: Url = HERE,
    key: Key = None,
) -> None:
    fields = {"pages": pages, "ocr": "true" if ocr else None, "password": password}
    found = _send(url, key, "/v1/documents", file, fields)
    text = json.dumps(found, indent=1) if as_json else "\n".join(page["text"] + "\n" for page in found["pages"])
    if output is not None:
        output.write_text(text, "utf-8")
    else:
        out.print(text, markup=False, highlight=False, soft_wrap=True, end="")
    _tell_unread(found)
    raise typer.Exit(1 if found["unread"] else 0)


@app.command("ask", help=ASK_HELP)
def ask_command(
    file: File,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    pages: Pages = None,
    ocr: Ocr = False,
    password: Password = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as the service gives it.")] = False,
    url: Url = HERE,
    key: Key = None,
) -> None:
    fields = {"question": question, "pages": pages, "ocr": "true" if ocr else None, "password": password}
    found = _send(url, key, "/v1/documents/ask", file, fields)
    if as_json:
        out.print(json.dumps(found, indent=1), markup=False, highlight=False, soft_wrap=True)
        return
    if not found["sources"]:
        fail("there is no text in this document", 1)
    out.print(found["answer"], markup=False, highlight=False, soft_wrap=True)
    out.print()
    for source in found["sources"]:
        left, top, right, bottom = source["box"]
        place = f"{left:.0f},{top:.0f} to {right:.0f},{bottom:.0f} {source['unit']}s from the top left corner"
        first = source["text"].splitlines()[0]
        out.print(f"[{source['index']}] page {source['page']}, {place}: {first}", markup=False, highlight=False)
    if found["model"] == "extractive":
        err.print("Without a language model this is the nearest passage; see speechlane serve --help, --assistant-url.")
    _tell_unread(found)


def _tell_unread(found: dict[str, Any]) -> None:
    for page in found["unread"]:
        err.print(f"page {page['number']} was not read: {page['error']}", markup=False)


def _send(url: str, key: str | None, path: str, file: Path, fields: dict[str, str | None]) -> Any:
    """The service's answer to a form with the file in it."""
    from gateway.cli.service import posted

    boundary = uuid.uuid4().hex
    body = bytearray()
    for name, value in fields.items():
        if value is not None:
            body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    named = 'Content-Disposition: form-data; name="file"; filename="document"'
    body += (
        f"--{boundary}\r\n{named}\r\nContent-Type: {kind}\r\n\r\n".encode()
        + file.read_bytes()
        + f"\r\n--{boundary}--\r\n".encode()
    )
    try:
        with err.status(f"reading {file.name}"):
            return posted(url, key, path, bytes(body), f"multipart/form-data; boundary={boundary}", timeout=TIMEOUT)
    except ClientError as error:
        fail(str(error), 1)
