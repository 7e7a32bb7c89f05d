"""A key is sent, and is nowhere else: not in logs, errors, events, recordings, or what is shown."""

import base64
import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from argstream import UsageError, stream
from argstream.errors import ProviderFailure
from argstream.models import HttpModel, ModelSettings, make_model
from argstream.recording import record_async
from argstream.testing import Cut, ErrorEvent, Fault, Reply, Slow, Status
from tests.models.over_http import (
    KEY,
    PREFIXES,
    Served,
    ask_for,
    failure_of,
    http,
    model_of,
    outcome,
    outcome_async,
    run,
    say,
    serving,
)
from tests.support.provider_rules import strict_provider

HEADER_SECRET = "gw-9d3e1f60b7c24e5d"
HIDDEN_KEY = f"{KEY[:9]}***{KEY[-4:]}"


def shown(text: str, *secrets: str) -> bool:
    """Whether a key is in a text, or enough of it to matter."""
    return any(
        secret[start : start + 8] in text
        for secret in secrets or (KEY, HEADER_SECRET)
        for start in range(9)
    )


@pytest.fixture
def _logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Look into everything that is logged, however little it is worth."""
    for name in ("", "httpx2", "httpcore2", "asyncio", "argstream"):
        caplog.set_level(logging.DEBUG, logger=name)
    yield
    messages = [record.getMessage() for record in caplog.get_records("call")]
    assert any(message.startswith("send_request_headers") for message in messages)
    assert not any(map(shown, messages))


def own_variables(error: BaseException) -> str:
    """The variables of our frames, as a traceback may show them."""
    whole = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(str(frame.locals) for frame in whole.stack if "/src/" in frame.filename)


def told(error: BaseException) -> str:
    """All that an exception may show: its chain, its notes, and the variables of its frames."""
    whole = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = "".join(whole.format(chain=True))
    return f"{error!s} {error!r} {vars(error)} {error.args!r} {frames}"


@pytest.mark.usefixtures("_logged")
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    "fault",
    [
        None,
        Status(400, f"no {KEY}"),
        Status(401, f"Incorrect API key provided: {KEY}. Or {HEADER_SECRET}?"),
        Status(429, f"{KEY} is limited"),
        ErrorEvent(at=0, message=f"wrong: {KEY}"),
        ErrorEvent(at=3, message=f"wrong: {KEY}"),
        Cut(at=30),
        Cut(at="call"),
        Slow(before=1),
    ],
)
def test_a_canary_is_nowhere(prefix: str, fault: Fault | None, tmp_path: Path) -> None:
    file = tmp_path / "a.rec"
    raised: list[ProviderFailure] = []

    async def ask(model: HttpModel) -> list[str]:
        request = ask_for(headers={"x-gateway-token": HEADER_SECRET})
        try:
            recorded = record_async(model.stream(request), file)
            return [repr(event) async for event in stream(recorded, model.protocol)]
        except ProviderFailure as error:
            raised.append(error)
            return [str(error)]

    with strict_provider(Reply("Hello"), faults=[fault] if fault else []) as provider:
        model = model_of(provider, prefix, timeout=0.1)
        found = run(ask(model))
    assert found
    assert not any(shown(text) for text in found)
    assert not any(shown(told(error), KEY) for error in raised)
    assert not shown(file.read_text())
    assert not shown(repr(model) + model.name + repr(vars(model)))
    assert not any(shown(repr(request)) for request in provider.requests)


@pytest.mark.parametrize(
    "message",
    [
        f"Incorrect API key provided: {HIDDEN_KEY}.",
        f"{KEY[:6]}…{KEY[-3:]} is not known",
        f"{KEY[:6]}...{KEY[-3:]} is not known",
        f"keys beginning with {KEY[:12]} are blocked",
        f"a={KEY}{KEY}",
        f"authorization: Bearer {KEY}",
    ],
)
def test_what_a_provider_leaves_of_a_key_is_taken_out(message: str) -> None:
    body = json.dumps({"error": {"message": message, "code": KEY}}).encode()
    with serving(say(http("401 Unauthorized", body, request_id=f"req {KEY}"))) as served:
        failure = failure_of(model_of(served.url, "openai"))
    assert not shown(told(failure))
    assert "[removed]" in failure.message
    for part in (KEY[:6], KEY[-3:]):
        assert part not in failure.message


def test_words_that_are_no_part_of_a_key_stay() -> None:
    body = "wait... 3 ** 2 … abcd and sk-other***x, please; abc, abcd".encode()
    with serving(say(http("400 Bad Request", body))) as served:
        failure = failure_of(model_of(served.url), ask_for(headers={"x-token": "abc"}))
    text = "wait... 3 ** 2 … abcd and sk-other***x, please; [removed], abcd"
    assert failure.message.endswith(text)


def test_a_short_key_is_no_reason_to_change_an_answer() -> None:
    with strict_provider(Reply("anything")) as provider:
        found = outcome(model_of(provider, api_key="any"))
    assert "".join(getattr(event, "text", "") for event in found.events) == "anything"


# Where a key comes from


def header(served: Served) -> str:
    lines = served.requests[0].decode().lower().split("\r\n")
    return next((line for line in lines if line.startswith(("x-api-key", "authorization"))), "")


def key_sent(name: str, **options: Any) -> str:
    with serving(say(http("400 Bad Request"))) as served:
        failure_of(make_model(name, base_url=served.url, **options))
        return header(served)


def test_a_key_is_an_argument_or_the_usual_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-env-a\n")
    monkeypatch.setenv("OPENAI_API_KEY", "from-env-o")
    assert key_sent("anthropic:m") == "x-api-key: from-env-a"
    assert key_sent("anthropic:m", api_key="given") == "x-api-key: given"
    assert key_sent("openai:m") == "authorization: bearer from-env-o"
    assert key_sent("openai-responses:m") == "authorization: bearer from-env-o"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert key_sent("openai:m") == ""  # a server of one's own needs none
    with serving(say(http("400 Bad Request"))) as served:
        model = make_model("openai:m", base_url=served.url)
        monkeypatch.setenv("OPENAI_API_KEY", "later")  # it is read when it is used
        failure_of(model)
        assert header(served) == "authorization: bearer later"


def test_a_token_of_anthropic_is_used_if_there_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "a-token")
    assert key_sent("anthropic:m") == "authorization: bearer a-token"
    assert key_sent("anthropic:m", api_key="given") == "x-api-key: given"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    assert key_sent("anthropic:m") == "x-api-key: a-key"


def test_a_missing_key_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    monkeypatch.delenv("GROQ_BASE_URL", raising=False)
    with pytest.raises(UsageError, match=r"groq needs a key: set \$GROQ_API_KEY, or give api_key"):
        outcome(make_model("groq:m"))


@pytest.mark.parametrize("key", ["two\nlines-of-a-key", "a-key-with-’"])
def test_a_key_that_cannot_be_one_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        outcome(make_model("anthropic:m", api_key=key))
    assert "characters in it that no key can have" in str(caught.value)
    variables = own_variables(caught.value)
    assert "lines-of-a-key" not in variables
    assert "a-key-with" not in variables


def test_a_header_that_cannot_be_one_is_refused_and_not_shown() -> None:
    request = ask_for(headers={"x-gateway-token": f"{HEADER_SECRET}\r\nx: y"})
    with pytest.raises(UsageError) as caught:
        outcome(model_of("http://127.0.0.1:1"), request)
    assert str(caught.value).startswith("the header 'x-gateway-token' has characters")
    assert not shown(own_variables(caught.value))


@pytest.mark.parametrize("name", ["anthropic:m", "nobody:m"])
def test_a_key_is_not_among_the_variables_of_what_fails(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_model(name, api_key=KEY, timeout=-1)
    assert "make_model" in "".join(traceback.format_exception(caught.value))
    assert not shown(own_variables(caught.value), KEY)


def test_settings_show_of_headers_only_the_names() -> None:
    settings = ModelSettings(max_tokens=5, headers={"x-gateway-token": HEADER_SECRET})
    assert repr(settings) == "ModelSettings(max_tokens=5, headers=['x-gateway-token'])"
    # What rich prints, also in its tracebacks.
    assert list(settings.__rich_repr__()) == [("max_tokens", 5), ("headers", ["x-gateway-token"])]


def _signed(request: httpx2.Request) -> httpx2.Request:
    headers = {**request.headers, "x-auth": KEY}
    return httpx2.Request("POST", request.url, headers=headers, content=request.content)


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"authorization": f"Bearer {KEY}"}},
        {"headers": {"x-gateway-token": KEY}},
        {"cookies": {"session": KEY}},
        {"auth": ("me", KEY)},
        {"auth": _signed},
    ],
)
def test_what_a_client_of_ones_own_sends_is_taken_out_as_well(options: dict[str, Any]) -> None:
    basic = base64.b64encode(f"me:{KEY}".encode()).decode()
    body = json.dumps({"error": {"message": f"no {KEY} here, nor {basic}", "code": KEY}}).encode()

    async def ask() -> ProviderFailure:
        async with httpx2.AsyncClient(**options) as client:
            model = model_of(served.url, api_key=None, http_client=client)
            found = await outcome_async(model)
        assert found.failure is not None
        return found.failure

    with serving(say(http("401 Unauthorized", body))) as served:
        failure = run(ask())
    assert failure.message.count("[removed]") >= 1
    assert not shown(told(failure), KEY)
    if "auth" in options and isinstance(options["auth"], tuple):
        assert basic not in failure.message


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_password_of_a_proxy_is_taken_out(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy says it in the body of its answer, or, of a connection, beside the status."""
    pair = f"me:{HEADER_SECRET}"
    basic = base64.b64encode(pair.encode()).decode()
    with serving(say(http(f"407 Who is {pair}", f"not {pair}, not {basic}".encode()))) as served:
        monkeypatch.setenv(f"{scheme.upper()}_PROXY", served.url.replace("//", f"//{pair}@"))
        failure = failure_of(model_of(f"{scheme}://provider.invalid", retries=0))
        assert f"Basic {basic}".encode() in served.requests[0]
    assert "407" in failure.message
    assert not shown(told(failure))
    assert basic not in failure.message


def test_headers_of_the_settings_are_sent_and_win() -> None:
    request = ask_for(headers={"X-Api-Key": "another", "anthropic-beta": "b"})
    with serving(say(http("400 Bad Request"))) as served:
        failure_of(model_of(served.url), request)
        head = served.requests[0].decode().lower()
    assert "x-api-key: another" in head
    assert "anthropic-beta: b" in head
    assert KEY not in head


def test_a_refused_key_is_told_by_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with strict_provider(Reply("a"), faults=[Status(401, "invalid x-api-key")]) as provider:
        by_variable = failure_of(make_model("anthropic:m", base_url=provider.anthropic_url))
        by_argument = failure_of(model_of(provider))
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        model = make_model("anthropic:m", base_url=provider.anthropic_url)
        without = failure_of(model)
    assert "anthropic:m refused the key of $ANTHROPIC_API_KEY (401)" in by_variable.message
    assert "invalid x-api-key" in by_variable.message
    assert "the key that was given as api_key" in by_argument.message
    assert "refused a request without a key" in without.message


@pytest.mark.parametrize("at", [0, 400])
def test_an_exception_of_a_request_leads_to_nothing_of_it(at: int) -> None:
    """Whether it comes before the answer or in it."""
    with strict_provider(Reply("Hello"), faults=[Cut(at)]) as provider:
        failure = outcome(model_of(provider)).failure
    assert failure is not None
    assert (failure.code, failure.__cause__, failure.__context__) == ("connection_lost", None, None)
