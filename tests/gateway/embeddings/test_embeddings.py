"""POST /v1/embeddings and /v1/rerank of the real service, by the clients that people use, and by none."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
import openai
import pytest

from tests.conftest import RunningService, status_of, wait_until

TEXTS = ["A cat sat on the mat.", "The stock market fell.", "Kittens like to sleep."]


def post(url: str, body: Any, **headers: str) -> tuple[int, Any, dict[str, str]]:
    """Status, JSON and headers of the answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error), dict(error.headers)


@pytest.fixture(scope="module")
def url(running_service: RunningService) -> str:
    """The shared service, once its embeddings are loaded; it says until when they are not."""

    def loaded() -> bool:
        status, answer, headers = post(f"{running_service.url}/v1/embeddings", {"input": "a"})
        assert status == 200 or (status == 503 and headers["Retry-After"] and answer["error"]["code"] == "draining")
        return status == 200

    wait_until(loaded, "ready for embeddings", running_service)
    with urllib.request.urlopen(f"{running_service.url}/readyz") as answer:
        assert json.load(answer)["embeddings"] == "ready"
    return f"{running_service.url}/v1"


def test_the_openai_package(url: str) -> None:
    client = openai.OpenAI(base_url=url, api_key="none")
    plain = client.embeddings.create(model="text-embedding-3-small", input=TEXTS)  # asks for base64 by itself
    floats = client.embeddings.create(model="all-MiniLM-L6-v2", input=TEXTS, encoding_format="float", user="me")
    one = client.embeddings.create(model="all-MiniLM-L6-v2", input=TEXTS[1])
    vectors = np.array([item.embedding for item in plain.data])
    assert vectors.shape == (3, 384)
    assert [item.index for item in plain.data] == [0, 1, 2]
    np.testing.assert_allclose(vectors, [item.embedding for item in floats.data], atol=1e-6)
    np.testing.assert_allclose(vectors[1], one.data[0].embedding, atol=1e-5)
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[1]
    assert plain.model == "all-MiniLM-L6-v2"
    assert plain.usage.prompt_tokens == plain.usage.total_tokens == 24
    with pytest.raises(openai.BadRequestError, match="not 128"):
        client.embeddings.create(model="text-embedding-3-small", input=TEXTS, dimensions=128)
    with pytest.raises(openai.NotFoundError, match="all-MiniLM-L6-v2"):
        client.embeddings.create(model="unknown", input=TEXTS)
    (info,) = [model for model in client.models.list() if model.id == "all-MiniLM-L6-v2"]
    assert info.task == "embedding"  # type: ignore[attr-defined]


def test_langchain_needs_a_single_setting(url: str) -> None:
    from langchain_openai import OpenAIEmbeddings

    embeddings = OpenAIEmbeddings(base_url=url, api_key="none", check_embedding_ctx_length=False)  # type: ignore[arg-type]
    found = np.array(embeddings.embed_documents(TEXTS))
    asked = np.array(embeddings.embed_query("a sleeping cat"))
    assert found.shape == (3, 384)
    assert (found @ asked).argmin() == 1


def test_tokens_of_openai_are_refused_and_never_taken_for_ours(url: str) -> None:
    # What LangChain sends without that setting: "hello world" in cl100k, numbers that are valid here as well.
    status, answer, _ = post(f"{url}/embeddings", {"input": [[15339, 1917]], "model": "text-embedding-3-small"})
    assert status == 400
    assert "check_embedding_ctx_length=False" in answer["error"]["message"]


def test_llama_index(url: str) -> None:
    from llama_index.embeddings.openai import OpenAIEmbedding

    embedding = OpenAIEmbedding(api_base=url, api_key="none", model="text-embedding-3-small")
    found = np.array(embedding.get_text_embedding_batch(TEXTS))
    assert (found @ np.array(embedding.get_query_embedding("a sleeping cat"))).argmin() == 1


def test_forms_of_input_and_output(url: str) -> None:
    status, whole, headers = post(f"{url}/embeddings", {"input": ["hello"], "dimensions": None})
    assert status == 200
    vector = np.array(whole["data"][0]["embedding"])
    for given in ("hello", [101, 7592, 102], [[101, 7592, 102]], [{"text": "hello"}]):
        _, answer, _ = post(f"{url}/embeddings", {"input": given})
        np.testing.assert_allclose(answer["data"][0]["embedding"], vector, atol=1e-5)
        assert answer["usage"]["prompt_tokens"] == 3
    space = whole["speechlane"]["space"]
    assert headers["X-Speechlane-Space"] == space["fingerprint"]
    assert (space["model"], space["dimensions"], space["normalised"]) == ("all-MiniLM-L6-v2", 384, True)
    for precision, kind in (("float32", "<f4"), ("float16", "<f2"), ("int8", "i1"), ("binary", "u1")):
        asked = {"input": "hello", "precision": precision}
        _, listed, headers = post(f"{url}/embeddings", asked)
        _, packed, _ = post(f"{url}/embeddings", asked | {"encoding_format": "base64"})
        found = np.frombuffer(base64.b64decode(packed["data"][0]["embedding"]), kind)
        np.testing.assert_allclose(found, listed["data"][0]["embedding"], atol=1e-5)
        assert len(found) == (48 if precision == "binary" else 384)
        assert (headers["X-Speechlane-Space"] == space["fingerprint"]) == (precision == "float32")
    asked = {"input": ["short", "word " * 400], "truncate": True, "lane": "bulk"}
    _, answer, _ = post(f"{url}/embeddings", asked)
    assert answer["speechlane"]["truncated"] == [1]
    assert answer["usage"]["total_tokens"] == 3 + 256


@pytest.mark.parametrize(
    ("body", "status", "param", "said"),
    [
        ({}, 400, "input", "input"),
        ({"input": []}, 400, "input", "empty"),
        ({"input": ""}, 400, "input[0]", "empty"),
        ({"input": ["a", " "]}, 400, "input[1]", "empty"),
        ({"input": [[]]}, 400, "input[0]", "empty"),
        ({"input": ["a", 1]}, 400, "input[1]", "should be"),
        ({"input": {"a": 1}}, 400, "input", "should be"),
        ({"input": "a", "model": 5}, 400, "model", "string"),
        ({"input": "a", "model": "gpt-9"}, 404, "model", "all-MiniLM-L6-v2"),
        ({"input": "a", "dimensions": 0}, 400, "dimensions", "1"),
        ({"input": "a", "dimensions": 100}, 400, "dimensions", "384 dimensions, not 100"),
        ({"input": "a", "encoding_format": "hex"}, 400, "encoding_format", "base64"),
        ({"input": "a", "precision": "int4"}, 400, "precision", "binary"),
        ({"input": "a", "lane": "fast"}, 400, "lane", "bulk"),
        ({"input": "a", "more": 1}, 400, "more", "Unknown"),
        ({"input": ["a", "word " * 600]}, 413, "input[1]", "602 tokens"),
        ({"input": ["a"] * 2049}, 413, "input", "2048"),
        ({"input": ["a"] * 100_000}, 413, "input", "2048"),
        ({"input": [{"image": "https://example.com/a.png"}]}, 400, "input[0]", "nothing is fetched"),
        ({"input": [{"image": base64.b64encode(b"GIF89a").decode()}]}, 400, "input[0]", "texts only"),
        (b'{"input": "\xff"}', 400, None, "UTF-8"),
        (b'{"input": ', 400, None, "JSON"),
        (b'{"input": "' + b"word " * 2_000_000 + b'"}', 413, "input", "larger than"),
        ({"input": "x" * 1_500_000}, 413, "input[0]", "1,000,000"),
    ],
)
def test_what_cannot_be_done_is_said(url: str, body: Any, status: int, param: str | None, said: str) -> None:
    found, answer, _ = post(f"{url}/embeddings", body)
    assert (found, answer["error"]["param"]) == (status, param)
    assert said in answer["error"]["message"]


def test_rerank_in_the_form_of_cohere_and_jina(url: str) -> None:
    asked = {"query": "What do cats do?", "documents": [TEXTS[1], {"text": TEXTS[2]}, TEXTS[0]], "top_n": 2}
    status, answer, headers = post(f"{url}/rerank", asked | {"return_documents": True})
    assert status == 200
    assert {item["index"] for item in answer["results"]} == {1, 2}
    assert answer["results"][0]["relevance_score"] > answer["results"][1]["relevance_score"]
    assert answer["results"][0]["document"]["text"] in TEXTS
    assert answer["speechlane"]["method"] == "bi-encoder cosine"
    assert headers["X-Speechlane-Space"]
    for wrong, param in (
        ({"documents": []}, "documents"),
        ({"documents": [3]}, "documents[0]"),
        ({"documents": ["a", ""]}, "documents[1]"),
        ({"query": " "}, "query"),
        ({"top_n": 0}, "top_n"),
        ({"model": "none"}, "model"),
    ):
        status, answer, _ = post(f"{url}/rerank", asked | wrong)
        assert status in (400, 404)
        assert answer["error"]["param"] == param


def test_it_is_counted(url: str) -> None:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/metrics") as answer:
        lines = answer.read().decode().splitlines()
    for start in ("speechlane_embedded_inputs_total{", "speechlane_embedding_seconds_count{"):
        (line,) = [line for line in lines if line.startswith(f'{start}lane="interactive"}}')]
        assert float(line.split()[-1]) > 0


def test_a_key_needs_the_scope_and_a_service_may_do_without(launch_service: Callable[..., RunningService]) -> None:
    service = launch_service("--embeddings", "", SPEECHLANE_API_KEYS="secret-of-tests", ready=False)
    wait_until(lambda: status_of(f"{service.url}/healthz") == 200, "listening", service)
    assert post(f"{service.url}/v1/embeddings", {"input": "a"})[0] == 401
    began = time.monotonic()
    status, answer, _ = post(f"{service.url}/v1/embeddings", {"input": "a"}, Authorization="Bearer secret-of-tests")
    assert (status, answer["error"]["code"]) == (501, "embeddings_unavailable")
    assert time.monotonic() - began < 10
    service.stop()
