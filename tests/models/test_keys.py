"""API keys are sent to the provider, and appear nowhere else."""

import base64
import json
import traceback
from typing import Any

import aiohttp
import pytest

from argstream import UsageError
from argstream.models import ModelSettings, make_model
from argstream.testing import Cut, Reply, Status
from tests.models import over_http
from tests.models.over_http import KEY, ask, failure_of, model_of, request_for, respond, serving
from tests.support.provider_rules import strict_provider

HEADER_SECRET = "gw-9d3e1f60b7c24e5d"


def leaks(text: str, *secrets: str) -> bool:
    """Return True if a secret, or eight characters of its start, are in the text."""
    return any(
        secret[start : start + 8] in text
        for secret in secrets or (KEY, HEADER_SECRET)
        for start in range(9)
    )


def own_variables(error: BaseException) -> str:
    """Return the variables of our frames, as a traceback may show them."""
    whole = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(str(frame.locals) for frame in whole.stack if "/src/" in frame.filename)


def all_of(error: BaseException) -> str:
    """Return all that an exception may show: its chain, its notes, the variables of its frames."""
    whole = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = "".join(whole.format(chain=True))
    return f"{error!s} {error!r} {vars(error)} {error.args!r} {frames}"


@pytest.mark.parametrize("at", [0, 400])
def test_failure_does_not_refer_to_the_request(at: int) -> None:
    with strict_provider(Reply("Hello"), faults=[Cut(at)]) as provider:
        error = over_http.outcome(model_of(provider)).error
    assert (error.code, error.__cause__, error.__context__) == ("connection_lost", None, None)


@pytest.mark.parametrize(
    "message",
    [
        f"Incorrect API key provided: {KEY[:9]}***{KEY[-4:]}.",
        f"{KEY[:6]}…{KEY[-3:]} is not known",
        f"{KEY[:6]}...{KEY[-3:]} is not known",
        f"keys beginning with {KEY[:12]} are blocked",
        f"a={KEY}{KEY}",
        f"authorization: Bearer {KEY}",
    ],
)
def test_masked_key_in_an_error_is_removed(message: str) -> None:
    body = json.dumps({"error": {"message": message, "code": KEY}}).encode()
    talk = respond("401 Unauthorized", body, request_id=f"req {KEY}")
    error = ask(talk, prefix="openai").error
    assert not leaks(all_of(error))
    assert "[removed]" in error.message
    assert KEY[:6] not in error.message
    assert KEY[-3:] not in error.message


@pytest.mark.parametrize("status", ["401 Unauthorized", "302 Found"])
def test_key_at_the_limit_of_a_text_is_removed(status: str) -> None:
    long = "x" * 190 + KEY
    body = json.dumps({"error": {"message": "x" * 930 + KEY * 3, "code": long}}).encode()
    error = ask(respond(status, body, request_id=long, location="x" * 900 + KEY * 3)).error
    assert not leaks(all_of(error), KEY)


def test_text_that_is_no_part_of_a_key_is_kept() -> None:
    body = "wait... 3 ** 2 … abcd and sk-other***x, please; abc, abcd".encode()
    error = ask(respond("400 No", body), request=request_for(headers={"x-token": "abc"})).error
    text = "wait... 3 ** 2 … abcd and sk-other***x, please; [removed], abcd"
    assert error.message.endswith(text)
    with strict_provider(Reply("anything")) as provider:  # contains the short key
        found = over_http.outcome(model_of(provider, api_key="any"))
    assert "".join(getattr(event, "text", "") for event in found.events) == "anything"


async def _sign(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    request.headers["x-auth"] = KEY
    return await send(request)


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"authorization": f"Bearer {KEY}"}},
        {"headers": {"x-gateway-token": KEY}},
        {"cookies": {"session": KEY}},
        {"headers": {"authorization": aiohttp.encode_basic_auth("me", KEY)}},
        {"middlewares": [_sign]},
    ],
)
async def test_secrets_of_a_given_session_are_removed(options: dict[str, Any]) -> None:
    basic = base64.b64encode(f"me:{KEY}".encode()).decode()
    body = json.dumps({"error": {"message": f"no {KEY} here, nor {basic}", "code": KEY}}).encode()
    if "cookies" in options:  # by default, none are sent to an IP address
        options = {**options, "cookie_jar": aiohttp.CookieJar(unsafe=True)}

    with serving(respond("401 Unauthorized", body)) as served:
        async with aiohttp.ClientSession(**options) as session:
            model = model_of(served.url, api_key=None, session=session)
            error = (await over_http.outcome_async(model)).error
    assert "[removed]" in error.message
    assert not leaks(all_of(error), KEY)
    if "Basic" in str(options):
        assert basic not in error.message


@pytest.mark.parametrize(
    "answer",
    [
        f"{KEY} 200 OK",
        f"HTTP/1.1 {KEY}",
        f"HTTP/1.1 200 OK\r\nbad header {KEY}",
        f"HTTP/1.1 200 OK\r\ncontent-length: {KEY}",
        f"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{KEY}",
    ],
)
async def test_invalid_http_is_not_quoted(answer: str) -> None:
    """What the session adds to a request is known only after the head of a response."""
    with serving(over_http.say(answer.encode() + b"\r\n\r\n")) as served:
        async with aiohttp.ClientSession(middlewares=[_sign]) as session:
            model = model_of(served.url, api_key=None, session=session)
            error = (await over_http.outcome_async(model)).error
    assert error.code == "connection_lost"
    assert not leaks(all_of(error), KEY)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_password_of_a_proxy_is_removed(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy may repeat it in the body, or, when it refuses to connect, beside the status."""
    pair = f"me:{HEADER_SECRET}"
    basic = base64.b64encode(pair.encode()).decode()
    body = f"not {pair}, not {basic}".encode()
    with serving(respond(f"407 Who is {pair}", body)) as served:
        monkeypatch.setenv(f"{scheme.upper()}_PROXY", served.url.replace("//", f"//{pair}@"))
        failure = failure_of(model_of(f"{scheme}://provider.invalid"))
        assert len(served.requests) == 1  # it would refuse a retry too
        assert f"Basic {basic}".encode() in served.requests[0]
    assert "407" in failure.message
    assert not leaks(all_of(failure))
    assert basic not in failure.message


@pytest.mark.parametrize("key", ["two\nlines-of-a-key", "a-key-with-’"])
def test_invalid_key_raises_and_is_not_shown(key: str) -> None:
    with pytest.raises(UsageError, match="characters that are not allowed in a key") as caught:
        over_http.outcome(make_model("anthropic:m", api_key=key))
    variables = own_variables(caught.value)
    assert "lines-of-a-key" not in variables
    assert "a-key-with" not in variables


def test_invalid_header_raises_and_is_not_shown() -> None:
    request = request_for(headers={"x-gateway-token": f"{HEADER_SECRET}\r\nx: y"})
    with pytest.raises(UsageError, match="header 'x-gateway-token' is") as caught:
        over_http.outcome(model_of("http://127.0.0.1:1"), request)
    assert not leaks(own_variables(caught.value))


@pytest.mark.parametrize("name", ["anthropic:m", "nobody:m"])
def test_key_is_not_in_the_variables_of_make_model(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_model(name, api_key=KEY, timeout=-1)
    assert "make_model" in "".join(traceback.format_exception(caught.value))
    assert not leaks(own_variables(caught.value), KEY)


def test_repr_of_settings_shows_only_the_names_of_headers() -> None:
    settings = ModelSettings(max_tokens=5, headers={"x-gateway-token": HEADER_SECRET})
    assert repr(settings) == "ModelSettings(max_tokens=5, headers=['x-gateway-token'])"
    # rich prints this, also in its tracebacks.
    assert list(settings.__rich_repr__()) == [("max_tokens", 5), ("headers", ["x-gateway-token"])]


def key_sent(name: str, **options: Any) -> str:
    """Return the header with the key that a model sends."""
    with serving(respond("400 Bad Request")) as served:
        failure_of(make_model(name, base_url=served.url, **options))
    lines = served.requests[0].decode().lower().split("\r\n")
    return next((line for line in lines if line.startswith(("x-api-key", "authorization"))), "")


def test_key_comes_from_the_argument_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-env-a\n")
    monkeypatch.setenv("OPENAI_API_KEY", "from-env-o")
    assert key_sent("anthropic:m") == "x-api-key: from-env-a"
    assert key_sent("anthropic:m", api_key="given") == "x-api-key: given"
    assert key_sent("openai:m") == "authorization: bearer from-env-o"
    assert key_sent("openai-responses:m") == "authorization: bearer from-env-o"
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "a-token")
    assert key_sent("anthropic:m") == "x-api-key: from-env-a"
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert key_sent("anthropic:m") == "authorization: bearer a-token"
    assert key_sent("anthropic:m", api_key="given") == "x-api-key: given"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert key_sent("openai:m") == ""  # a local server needs none
    with serving(respond("400 Bad Request")) as served:
        model = make_model("openai:m", base_url=served.url)
        monkeypatch.setenv("OPENAI_API_KEY", "later")  # read when the model is used
        failure_of(model)
    assert b"authorization: bearer later" in served.requests[0].lower()


def test_headers_of_the_settings_override_the_key() -> None:
    request = request_for(headers={"X-Api-Key": "another", "anthropic-beta": "b"})
    head = ask(respond("400 Bad Request"), request=request).requests[0].decode().lower()
    assert "x-api-key: another" in head
    assert "anthropic-beta: b" in head
    assert KEY not in head


def test_rejected_key_is_named_by_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with strict_provider(Reply("a"), faults=[Status(401, "invalid x-api-key")]) as provider:
        by_variable = failure_of(make_model("anthropic:m", base_url=provider.anthropic_url))
        by_argument = failure_of(model_of(provider))
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        without = failure_of(make_model("anthropic:m", base_url=provider.anthropic_url))
    assert "anthropic:m refused the key of $ANTHROPIC_API_KEY (401)" in by_variable.message
    assert "invalid x-api-key" in by_variable.message
    assert "the key passed as api_key" in by_argument.message
    assert "refused a request without a key" in without.message
