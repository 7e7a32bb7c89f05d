"""make_model: names of models, addresses, requests and options."""

import json
import math
import os
import re
import shutil
import ssl
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from argstream import UsageError
from argstream.errors import MissingExtraError
from argstream.models import Retries, Timeouts, make_model
from argstream.recording.proxy import Upstream
from tests.models.over_http import ask, failure_of, model_of, request_for, respond, serving
from tests.support import program_is_missing

NOWHERE = "http://127.0.0.1:1"


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
def test_prefix_selects_the_provider(name: str, protocol: str, address: str) -> None:
    model = make_model(name)
    assert (model.name, model.protocol, model.base_url) == (name, protocol, address)
    assert repr(model) == f"<HttpModel {name} at {address}>"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("claude-opus-4-7", "Did you mean 'anthropic:claude-opus-4-7'"),
        ("gpt-5", "Did you mean 'openai:gpt-5'"),
        ("antropic:claude", "Did you mean 'anthropic:claude'"),
        ("openai_responses:gpt-5", "Did you mean 'openai-responses:gpt-5'"),
        ("anthropic/claude", "Did you mean 'anthropic:claude'"),
        ("zzz:y", "unknown provider 'zzz'. Providers: anthropic, openai"),
        ("anthropic:", "is a provider. Add a model"),
        ("anthropic", "is a provider. Add a model"),
        ("", "Write provider:name, e.g. openai:MODEL"),
    ],
)
def test_invalid_name_raises_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(hint)):
        make_model(name)


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
def test_environment_variable_sets_the_address(
    variable: str, value: str, name: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    assert make_model(name).base_url == address
    assert make_model(name, base_url="http://mine").base_url == "http://mine"


@pytest.mark.parametrize(
    "url",
    [
        *("", "localhost:8000", "ftp://a", "http://", "http://a:x", "http://[", "http://a\n/v1"),
        *("http://a/\x00", "http://a\u200bb/v1", "http://300.300.300.300", "http://a/\ud800"),
    ],
)
def test_invalid_address_raises(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="base_url must be a URL such as"):
        make_model("openai:m", base_url=url)
    monkeypatch.setenv("OPENAI_BASE_URL", "nonsense")
    with pytest.raises(UsageError, match=r"\$OPENAI_BASE_URL must be a URL"):
        make_model("openai:m")


@pytest.mark.parametrize("url", ["http://me:pw@a/v1", "http://a/v1?key=pw", "http://a/v1#pw"])
def test_address_with_a_secret_raises_without_showing_it(url: str) -> None:
    with pytest.raises(UsageError, match="URLs appear in logs") as caught:
        make_model("openai:m", base_url=url)
    assert "pw" not in str(caught.value)


# Certificates are loaded once per process, so their variables come first in a new process.
VARIABLES = {
    "SSL_CERT_FILE": ("/not/there", "certificates cannot be loaded"),
    "SSLKEYLOGFILE": ("/not/there", "certificates cannot be loaded"),
    "HTTP_PROXY": ("foo://me:pw@a", "not a valid proxy URL"),
    "http_proxy": ("http://a:b", "not a valid proxy URL"),
    "ALL_PROXY": ("socks5://127.0.0.1:1", "SOCKS proxies need a session"),
}


def failure_message(url: str) -> str:
    return failure_of(model_of(url)).message


def errors_of_variables() -> str:
    errors = []
    for variable, (value, _) in VARIABLES.items():
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv(variable, value)
            with pytest.raises(UsageError) as caught:
                failure_message(NOWHERE)
        errors.append(str(caught.value))
    return "\n".join(errors)


def errors_on_a_mac() -> str:
    import_module("truststore")  # it asks for the system when it is imported
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        monkeypatch.delenv("SSL_CERT_DIR", raising=False)
        monkeypatch.setattr("platform.system", lambda: "Darwin")
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "truststore", None)
            with pytest.raises(MissingExtraError) as caught:
                failure_message(NOWHERE)
            with pytest.raises(MissingExtraError):
                Upstream("https://a.example").connect()
        return f"{caught.value}\n{failure_message(NOWHERE)}"


def in_new_process(call: str, **variables: str) -> list[str]:
    program = f"from tests.models import test_providers as t; print(t.{call})"
    command, environment = [sys.executable, "-c", program], os.environ | variables
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.splitlines()


def test_invalid_proxy_or_certificate_variable_is_named() -> None:
    messages = in_new_process("errors_of_variables()")
    for message, (variable, (_, problem)) in zip(messages, VARIABLES.items(), strict=True):
        assert problem in message
        assert f"${variable}" in message
        assert "pw" not in message


def test_store_of_the_system_is_used_where_openssl_has_no_certificates() -> None:
    missing, failed = in_new_process("errors_on_a_mac()")
    assert "pip install '.[http]'" in missing
    assert "cannot connect to" in failed


def test_certificate_of_a_provider_must_be_trusted(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        program_is_missing("openssl makes the certificate of this test: apt-get install openssl")
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subject = ["-days", "2", "-subj", "/CN=a", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with serving(respond("400 No"), tls=tls) as served:
        ask_it = f"failure_message({served.url!r})"
        [untrusted] = in_new_process(ask_it)
        assert "certificate verify failed" in untrusted
        assert "tried" not in untrusted
        assert served.requests == []
        [trusted] = in_new_process(ask_it, SSL_CERT_FILE=certificate)
        assert "refused the request with 400" in trusted


@pytest.mark.parametrize(
    ("name", "path", "body"),
    [
        ("anthropic:some/model", "/base/v1/messages", {"max_tokens": 9}),
        ("openai:some/model", "/base/chat/completions", {"max_tokens": 9}),
        ("openai-responses:some/model", "/base/responses", {"max_output_tokens": 9}),
        ("groq:some/model", "/base/chat/completions", {"max_completion_tokens": 9}),
    ],
)
def test_request_has_path_and_body_of_its_api(name: str, path: str, body: dict[str, Any]) -> None:
    with serving(respond("400 Bad Request")) as served:
        model = make_model(name, base_url=f"{served.url}/base/", api_key="k")
        failure_of(model, request_for(max_tokens=9))
    head, _, sent = served.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(f"POST {path} HTTP/1.1\r\n".encode())
    assert b"content-type: application/json" in head.lower()
    assert json.loads(sent).items() >= {"model": "some/model", "stream": True, **body}.items()


def test_unknown_model_is_named_with_its_address() -> None:
    with serving(respond("404 Not Found", b'{"error": {"message": "no such model"}}')) as served:
        message = failure_of(model_of(served.url)).message
    assert f"{served.url}/v1/messages does not know the model 'some-model'" in message
    assert "no such model" in message


def test_error_names_the_wrong_field_and_the_request_id() -> None:
    error = {"message": "Too long", "type": "invalid_request_error", "param": "tools[0].name"}
    body = json.dumps({"error": error | {"code": None}}).encode()
    found = ask(respond("400 Bad Request", body, x_request_id="req_7"), prefix="openai").error
    expected = "refused the request with 400: Too long (tools[0].name) (invalid_request_error)"
    assert str(found) == f"openai:some-model {expected}"
    assert found.request_id == "req_7"


def test_any_json_can_be_sent() -> None:
    request = request_for(extra={"a": 2**70, "b": "\ud800"})
    found = ask(respond("400 Bad Request"), request=request)
    sent = json.loads(found.requests[0].partition(b"\r\n\r\n")[2])
    assert (sent["a"], sent["b"]) == (2**70, "\ud800")
    with pytest.raises(UsageError, match="cannot be encoded as JSON"):
        failure_of(model_of(NOWHERE), request_for(extra={"a": object()}))


@pytest.mark.parametrize(
    "headers", [{"x y": "1"}, {"": "1"}, {"x:": "1"}, {"x": 1}, {"x": None}, {"x": b"1"}, {1: "1"}]
)
def test_invalid_header_is_named(headers: Any) -> None:
    (name,) = headers
    with pytest.raises(UsageError, match=re.escape(f"header {name!r} is")):
        failure_of(model_of(NOWHERE), request_for(headers=headers))


def test_invalid_options_raise() -> None:
    invalid: list[dict[str, Any]] = [
        *({"timeout": 0}, {"timeout": -1.0}, {"retries": -1}, {"session": object()}),
        *({"api_key": 7}, {"base_url": "nonsense"}, {"base_url": 5}),
        *({"timeout": "x"}, {"timeout": math.inf}, {"retries": "x"}),
    ]
    for options in invalid:
        with pytest.raises(UsageError):
            make_model("anthropic:m", **options)
    with pytest.raises(UsageError, match="each wait must be at least 0"):
        Retries(first_wait=-1)
    with pytest.raises(UsageError, match="must be greater than 0, or None"):
        Timeouts(connect=0)
