"""Names of models: who is asked, where, and with what."""

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from argstream import UsageError
from argstream.models import Retries, Timeouts, make_model
from tests.models.over_http import ask_for, failure_of, http, model_of, say, serving


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in list(os.environ):
        if variable.endswith(("_API_KEY", "_AUTH_TOKEN", "_BASE_URL", "_HOST")):
            monkeypatch.delenv(variable)


@pytest.mark.parametrize(
    ("name", "protocol", "address"),
    [
        ("anthropic:claude-opus-4-7", "anthropic", "https://api.anthropic.com"),
        ("openai:gpt-5", "openai-chat", "https://api.openai.com/v1"),
        ("openai-responses:gpt-5", "openai-responses", "https://api.openai.com/v1"),
        ("deepseek:deepseek-chat", "openai-chat", "https://api.deepseek.com"),
        ("openrouter:a/b:free", "openai-chat", "https://openrouter.ai/api/v1"),
        ("groq:llama", "openai-chat", "https://api.groq.com/openai/v1"),
        ("mistral:large", "openai-chat", "https://api.mistral.ai/v1"),
        ("xai:grok-4", "openai-chat", "https://api.x.ai/v1"),
        ("together:meta/llama", "openai-chat", "https://api.together.ai/v1"),
        ("ollama:qwen3:8b", "openai-chat", "http://127.0.0.1:11434/v1"),
        ("vllm:qwen3", "openai-chat", "http://127.0.0.1:8000/v1"),
    ],
)
def test_a_prefix_names_a_provider(name: str, protocol: str, address: str) -> None:
    model = make_model(name)
    assert (model.name, model.protocol, model.base_url) == (name, protocol, address)
    assert repr(model) == f"<HttpModel {name} at {address}>"


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("claude-opus-4-7", "such as 'anthropic:claude-opus-4-7'"),
        ("gpt-5", "such as 'openai:gpt-5'"),
        ("antropic:claude", "such as 'anthropic:claude'"),
        ("openai_responses:gpt-5", "such as 'openai-responses:gpt-5'"),
        ("anthropic/claude", "such as 'anthropic:claude'"),
        ("zzz:y", "write the provider before it; there are: anthropic, openai"),
        ("anthropic:", "write the model after the provider"),
        ("anthropic", "write the model after the provider"),
        ("", "write the provider before it"),
    ],
)
def test_a_name_that_is_none_gets_a_guess(name: str, guess: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_model(name)
    assert guess in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "name", "address"),
    [
        ("ANTHROPIC_BASE_URL", "https://a.example/ ", "anthropic:m", "https://a.example"),
        ("OPENAI_BASE_URL", "https://o.example/v1", "openai:m", "https://o.example/v1"),
        ("OPENAI_BASE_URL", "https://o.example/v1", "openai-responses:m", "https://o.example/v1"),
        ("GROQ_BASE_URL", "https://g.example", "groq:m", "https://g.example/openai/v1"),
        ("GROQ_BASE_URL", "https://g.example/api", "groq:m", "https://g.example/api"),
        ("VLLM_BASE_URL", "http://v:8000/v1", "vllm:m", "http://v:8000/v1"),
        ("OLLAMA_HOST", "0.0.0.0", "ollama:m", "http://0.0.0.0:11434/v1"),
        ("OLLAMA_HOST", ":8080", "ollama:m", "http://127.0.0.1:8080/v1"),
        ("OLLAMA_HOST", "host:1/sub/", "ollama:m", "http://host:1/sub/v1"),
        ("OLLAMA_HOST", "[::1]", "ollama:m", "http://[::1]:11434/v1"),
        ("OLLAMA_HOST", "[::1]:9", "ollama:m", "http://[::1]:9/v1"),
        ("OLLAMA_HOST", "https://ollama.com", "ollama:m", "https://ollama.com/v1"),
        ("OLLAMA_HOST", "http://h:1/v1", "ollama:m", "http://h:1/v1"),
    ],
)
def test_the_usual_variable_names_another_address(
    variable: str, value: str, name: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    assert make_model(name).base_url == address
    assert make_model(name, base_url="http://mine").base_url == "http://mine"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://a",
        "http://",
        "http://a:x",
        "http://[",
        "http://a\n/v1",
        "http://a/\x00",
        "http://a\u200bb/v1",
        "http://300.300.300.300",
        "http://a/\ud800",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="base_url is an address such as"):
        make_model("openai:m", base_url=url)


@pytest.mark.parametrize("url", ["http://me:pw@a/v1", "http://a/v1?key=pw", "http://a/v1#pw"])
def test_an_address_with_a_secret_in_it_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(UsageError, match="addresses get into logs") as caught:
        make_model("openai:m", base_url=url)
    assert "pw" not in str(caught.value)


def test_a_wrong_address_of_a_variable_is_told_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "nonsense")
    with pytest.raises(UsageError, match=r"\$OPENAI_BASE_URL is an address"):
        make_model("openai:m")


@pytest.mark.parametrize(
    ("name", "path", "body"),
    [
        ("anthropic:some/model", "/base/v1/messages", {"max_tokens": 9}),
        ("openai:some/model", "/base/chat/completions", {"max_tokens": 9}),
        ("openai-responses:some/model", "/base/responses", {"max_output_tokens": 9}),
        ("groq:some/model", "/base/chat/completions", {"max_completion_tokens": 9}),
    ],
)
def test_a_request_is_one_of_the_api(name: str, path: str, body: dict[str, Any]) -> None:
    with serving(say(http("400 Bad Request"))) as served:
        failure_of(
            make_model(name, base_url=f"{served.url}/base/", api_key="k"), ask_for(max_tokens=9)
        )
        head, _, sent = served.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(f"POST {path} HTTP/1.1\r\n".encode())
    assert b"content-type: application/json" in head.lower()
    assert json.loads(sent).items() >= {"model": "some/model", "stream": True, **body}.items()


def test_a_model_that_is_not_there_is_named_with_its_address() -> None:
    with serving(say(http("404 Not Found", b'{"error": {"message": "no such model"}}'))) as served:
        failure = failure_of(model_of(served.url))
    assert f"{served.url}/v1/messages does not know the model 'some-model'" in failure.message
    assert "no such model" in failure.message


def test_a_field_that_is_wrong_is_named() -> None:
    error = {"message": "Too long", "type": "invalid_request_error", "param": "tools[0].name"}
    body = json.dumps({"error": error | {"code": None}}).encode()
    with serving(say(http("400 Bad Request", body, x_request_id="req_7"))) as served:
        failure = failure_of(model_of(served.url, "openai"))
    assert str(failure) == (
        "openai:some-model refused the request with 400: Too long (tools[0].name) "
        "(invalid_request_error)"
    )
    assert failure.request_id == "req_7"


@pytest.mark.parametrize(
    "headers", [{"x y": "1"}, {"": "1"}, {"x:": "1"}, {"x": 1}, {"x": None}, {"x": b"1"}, {1: "1"}]
)
def test_a_header_that_is_none_is_named(headers: Any) -> None:
    (name,) = headers
    with pytest.raises(UsageError, match=re.escape(f"the header {name!r} has")):
        failure_of(model_of("http://127.0.0.1:1"), ask_for(headers=headers))


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("HTTP_PROXY", "foo://me:pw@a", "no address of a proxy"),
        ("https_proxy", "http://a:b", "no address of a proxy"),
        ("ALL_PROXY", "socks5://127.0.0.1:1", "a SOCKS proxy, for which the package socksio"),
        ("SSL_CERT_FILE", "/not/there", "certificates cannot be loaded"),
        ("SSLKEYLOGFILE", "/not/there", "certificates cannot be loaded"),
    ],
)
def test_a_variable_that_cannot_be_right_is_named(
    variable: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    ask = "from tests.models import over_http as o; o.failure_of(o.model_of('http://127.0.0.1:1'))"
    # Certificates are loaded once, so this needs a process of its own.
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
    told = done.stderr.splitlines()[-1]
    assert "UsageError" in told
    assert problem in told
    assert f"${variable}" in told
    assert "pw" not in told


def test_what_a_model_wrote_can_be_sent_back_whatever_it_is() -> None:
    with serving(say(http("400 Bad Request"))) as served:
        failure_of(model_of(served.url), ask_for(extra={"a": 2**70, "b": "\ud800"}))
        sent = json.loads(served.requests[0].partition(b"\r\n\r\n")[2])
    assert (sent["a"], sent["b"]) == (2**70, "\ud800")


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be written as JSON"):
        failure_of(model_of("http://127.0.0.1:1"), ask_for(extra={"a": object()}))


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": -1.0},
        {"retries": -1},
        {"http_client": object()},
        {"api_key": 7},
        {"base_url": "nonsense"},
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        make_model("anthropic:m", **options)


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(UsageError, match="waits are seconds"):
        Retries(first_wait=-1)
    with pytest.raises(UsageError, match="give seconds"):
        Timeouts(connect=0)
