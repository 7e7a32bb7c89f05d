"""The mock provider as a server: its bytes, its checks, its scripts and its recordings."""

import http.client
import json
import re
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from argstream import UsageError, models, testing
from argstream.testing import CallTool, Cut, ErrorEvent, MockProvider, Reply, Slow, Split, Status
from argstream.wire import Frame, SseDecoder
from tests.testing.posting import BODIES, HEADERS, KEY, ROUTES, SCRIPT, post

ANTHROPIC, CHAT, RESPONSES = ROUTES


def stream_body(provider: MockProvider, path: str) -> bytes:
    return post(provider, path, streamed=True)[2]


def message(answer: tuple[int, dict[str, str], bytes]) -> str:
    return str(json.loads(answer[2])["error"]["message"])


def frames(body: bytes) -> list[Frame]:
    decoder = SseDecoder()
    found = [frame for frame in decoder.feed(body) if isinstance(frame, Frame)]
    assert decoder.close() == []
    return [frame for frame in found if frame.data != b"[DONE]"]


def payloads(body: bytes) -> list[Any]:
    return [json.loads(frame.data) for frame in frames(body)]


def address(provider: MockProvider) -> tuple[str, int]:
    host, port = provider.url.removeprefix("http://").split(":")
    return host, int(port)


def raw_stream(provider: MockProvider, path: str) -> bytes:
    """Return the body with the chunks of HTTP, up to the end of the connection."""
    body = json.dumps({**BODIES[path], "stream": True}).encode()
    lines = [f"POST {path} HTTP/1.1", "host: x", "connection: close"]
    lines += [f"{name}: {value}" for name, value in HEADERS.items()]
    head = "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode()
    with socket.create_connection(address(provider), timeout=5) as connection:
        connection.sendall(head + body)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    return received.partition(b"\r\n\r\n")[2]


def served(
    path: str,
    *faults: testing.Fault,
    script: Reply = SCRIPT,
    read: Callable[..., bytes] = stream_body,
) -> bytes:
    with MockProvider(script, faults=faults) as provider:
        return read(provider, path)


served_raw = partial(served, read=raw_stream)


def joined(body: bytes) -> bytes:
    """Join chunks of one byte each."""
    return re.sub(rb"(?s)1\r\n(.)\r\n", rb"\1", body)


def unknown_fields(value: object) -> set[str]:
    """Return the fields of a payload that its type does not have."""
    match value:
        case BaseModel():
            own = set(value.model_extra or ())
            return own.union(*(unknown_fields(getattr(value, name)) for name in value.__dict__))
        case list():
            return set().union(*map(unknown_fields, value))
        case _:
            return set()


@pytest.mark.parametrize(
    ("path", "event_type", "answer_type"),
    [
        (ANTHROPIC, "anthropic.types.RawMessageStreamEvent", "anthropic.types.Message"),
        (CHAT, "openai.types.chat.ChatCompletionChunk", "openai.types.chat.ChatCompletion"),
        (
            RESPONSES,
            "openai.types.responses.ResponseStreamEvent",
            "openai.types.responses.Response",
        ),
    ],
)
def test_answers_have_the_types_of_the_sdks(path: str, event_type: str, answer_type: str) -> None:
    """The SDKs do not validate what they receive."""
    adapter: TypeAdapter[object] = TypeAdapter(resolve_name(event_type))
    for script in (SCRIPT, Reply(*SCRIPT.parts, stop="length")):
        for frame in frames(served(path, script=script)):
            payload = json.loads(frame.data)
            assert frame.event == payload.get("type", "")  # Chat names no event
            if payload != {"type": "ping"}:
                event = adapter.validate_python(payload)
                assert unknown_fields(event) <= {"reasoning_content", "store"}
    with MockProvider(SCRIPT) as provider:
        answer = resolve_name(answer_type).model_validate_json(post(provider, path)[2])
    assert unknown_fields(answer) <= {"reasoning_content", "store"}


def test_chat_sends_usage_only_on_request() -> None:
    body = {**BODIES[CHAT], "stream": True, "stream_options": {"include_usage": True}}
    body["tools"] = [{"type": "custom", "custom": {"name": "free"}}]
    with MockProvider(SCRIPT) as provider:
        *others, last = payloads(post(provider, CHAT, body)[2])
        without = payloads(stream_body(provider, CHAT))
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"] == 100
    assert all(chunk["usage"] is None for chunk in others)
    assert not any("usage" in chunk for chunk in without)


def test_lone_surrogate_is_sent_escaped() -> None:
    assert b"\\ud800" in served(ANTHROPIC, script=Reply("a\ud800b", piece_size=100))


@pytest.mark.parametrize("path", ROUTES)
def test_each_event_is_one_chunk(path: str) -> None:
    chunks = served_raw(path).split(b"\r\n")
    assert chunks[-3:] == [b"0", b"", b""]
    for size, data in zip(chunks[:-3:2], chunks[1:-3:2], strict=True):
        assert int(size, 16) == len(data)
        assert data.endswith(b"\n\n")
        assert data.count(b"data: ") == 1


def test_split_sends_one_byte_per_chunk_or_random_sizes_by_seed() -> None:
    assert joined(served_raw(ANTHROPIC, Split())) == served(ANTHROPIC) + b"0\r\n\r\n"
    one, again, other = (served_raw(ANTHROPIC, Split((20,), seed=seed)) for seed in (1, 1, 2))
    assert one == again != other


@pytest.mark.parametrize("at", [0, 1, 300])
def test_cut_ends_after_that_many_bytes_without_the_last_chunk(at: int) -> None:
    assert joined(served_raw(ANTHROPIC, Cut(at), Split())) == served(ANTHROPIC)[:at]


@pytest.mark.parametrize("path", ROUTES)
def test_cut_in_call_ends_inside_arguments_or_inside_the_text(path: str) -> None:
    body = served_raw(path, Cut("call"))
    before, _, last = body.rpartition(b"\r\n")[0].rpartition(b"\r\n")
    assert b"arguments" in before or b"partial_json" in before
    assert not last.endswith(b"\n\n")
    assert b"content" in served_raw(path, Cut("call"), script=Reply("Hello, hello."))


@pytest.mark.parametrize("path", ROUTES)
def test_malformed_changes_one_payload(path: str) -> None:
    good, bad = served(path).split(b"\n\n"), served(path, testing.Malformed(3)).split(b"\n\n")
    assert [n for n, (one, other) in enumerate(zip(good, bad, strict=True)) if one != other] == [3]
    data = bad[3].partition(b"data: ")[2]
    assert data
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        json.loads(data)
    assert served(path, testing.Malformed(999)).endswith(b"\n\n")


@pytest.mark.parametrize("path", ROUTES)
def test_error_event_is_the_last(path: str) -> None:
    found = payloads(served(path, ErrorEvent(2, message="no more")))
    assert len(found) == 3
    assert found[-1]["error"]["message"] == "no more"
    assert found[-1].get("sequence_number") == (2 if path == RESPONSES else None)
    assert "error" in payloads(served(path, ErrorEvent(999)))[-1]


@pytest.mark.parametrize(
    ("status", "type_", "code"),
    [
        (429, "rate_limit_error", "rate_limit_exceeded"),
        (500, "api_error", "server_error"),
        (529, "overloaded_error", "overloaded"),
        (418, "invalid_request_error", None),
    ],
)
def test_status_has_the_error_body_of_the_api(status: int, type_: str, code: str | None) -> None:
    with MockProvider(SCRIPT, faults=[Status(status)]) as provider:
        answers = [post(provider, path) for path in ROUTES]
    assert [answer[0] for answer in answers] == [status] * 3
    assert [("retry-after" in answer[1]) for answer in answers] == [status == 429] * 3
    of_anthropic, of_chat, of_responses = (json.loads(answer[2]) for answer in answers)
    assert (of_anthropic["type"], of_anthropic["error"]["type"]) == ("error", type_)
    assert of_chat["error"]["code"] == code
    assert of_chat == of_responses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cut", Cut("call")),
        ("cut=500", Cut(500)),
        ("cut=call", Cut("call")),
        ("error=3", ErrorEvent(3)),
        ("error", ErrorEvent("call")),
        ("malformed=0", testing.Malformed(0)),
        ("status=429", Status(429)),
        ("slow=0.5", Slow(between=0.5)),
        ("wait=2", Slow(before=2)),
        ("total=3", Slow(total=3)),
        ("split", Split((1,))),
        ("split=7", Split((7,))),
        ("split=random", Split((64,), seed=0)),
        ("split=random:9", Split((64,), seed=9)),
        ("cot=3", "unknown fault 'cot'. Faults: cut=BYTES, cut=call"),
        ("cut=x", "Write cut=BYTES or cut=call"),
        ("cut=-1", "an int of at least 0"),
        ("status=200", "from 400 to 599"),
        ("status", "Write status=429"),
        ("slow=nan", "seconds must be at least 0"),
        ("slow=-1", "seconds must be at least 0"),
        ("split=0", "sizes must be at least 1"),
    ],
)
def test_parse_fault_returns_a_fault_or_explains_errors(
    text: str, expected: testing.Fault | str
) -> None:
    if isinstance(expected, str):
        with pytest.raises(UsageError, match=re.escape(expected)):
            testing.parse_fault(text)
    else:
        assert testing.parse_fault(text) == expected


def test_stop_closes_idle_connections_threads_and_the_port() -> None:
    before = threading.active_count()
    provider = MockProvider(SCRIPT).start()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", provider.url)
    assert provider.anthropic_url == provider.url
    assert provider.openai_url == provider.url + "/v1"
    place = address(provider)
    with socket.create_connection(place, timeout=5) as idle:
        post(provider, ANTHROPIC)
        provider.stop()
        provider.stop()
        assert idle.recv(1) == b""
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(place, timeout=5)
    assert len(provider.requests) == 1


def test_provider_can_be_restarted_but_not_started_twice() -> None:
    provider = MockProvider(SCRIPT)
    with pytest.raises(UsageError, match="is not running"):
        provider.url  # noqa: B018
    for _ in range(2):
        with provider:
            assert post(provider, ANTHROPIC)[0] == 200
            with pytest.raises(UsageError, match="already running"):
                provider.start()


def test_port_that_cannot_be_used_is_named() -> None:
    with MockProvider(SCRIPT) as provider:
        _, port = address(provider)
        with pytest.raises(UsageError, match=f"port {port}.*0 for a free one"):
            MockProvider(SCRIPT, port=port).start()
    with pytest.raises(UsageError, match="port 70000"):
        MockProvider(SCRIPT, port=70000).start()


@pytest.mark.parametrize("header", [("transfer-encoding", "chunked"), ("content-length", "x")])
def test_body_of_unknown_length_is_refused(header: tuple[str, str]) -> None:
    with MockProvider(SCRIPT) as provider:
        connection = http.client.HTTPConnection(*address(provider), timeout=5)
        connection.putrequest("POST", ANTHROPIC)
        connection.putheader(*header)
        connection.endheaders()
        assert connection.getresponse().status in (400, 411)
        connection.close()
        assert post(provider, ANTHROPIC)[0] == 200


def test_requests_are_reported_without_keys() -> None:
    reported: list[Any] = []
    headers = {**HEADERS, "cookie": KEY, "x-goog-api-key": KEY, "user-agent": "test"}
    with MockProvider(SCRIPT, on_request=reported.append) as provider:
        post(provider, f"/v1/unknown?key={KEY}", headers=headers)
        post(provider, ANTHROPIC, b"no json", headers=headers)
        post(provider, ANTHROPIC, headers=headers)
    assert reported == provider.requests
    assert KEY not in repr(provider.requests)
    with pytest.raises(UsageError) as caught:
        provider.check()
    assert KEY not in str(caught.value)
    request = provider.requests[2]
    assert request.headers["x-api-key"] == "[removed]"
    assert request.headers["user-agent"] == "test"
    assert (request.method, request.path, request.status) == ("POST", ANTHROPIC, 200)
    assert request.body == {**BODIES[ANTHROPIC], "stream": False}


def test_header_is_secret_by_its_name_its_scheme_or_its_look() -> None:
    secret = {
        "x-api-key": "short",
        "x-acme-pat": "sk-4f9b1c77e2d04a6a",
        "x-access": "Bearer short",
        "x-jwt": "Basic dXNlcjpvcGVuIHNlc2FtZQ==",
        "x-any": "a=b; token=short",
        "x-db-pass": "short",
        "x-hub-signature-256": "short",
    }
    public = {
        "x-model": "claude-sonnet-4-20250514",
        "x-models": "us.meta.llama3-1-70b-instruct-v1:0",
        "x-author": "somebody",
        "x-design": "modern",
        "user-agent": "openai-python/1.109.1-0123456789ab",
        "anthropic-beta": "fine-grained-tool-streaming-2025-05-14",
    }
    with MockProvider(SCRIPT) as provider:
        post(provider, ANTHROPIC, headers={**HEADERS, **secret, **public})
    shown = provider.requests[0].headers
    assert {name: shown[name] for name in public} == public
    assert {shown[name] for name in secret} == {"[removed]"}


SCHEMA = {"type": "object", "properties": {}}
UNNESTED = {"type": "function", "name": "add", "parameters": SCHEMA}
NESTED = {"type": "function", "function": {"name": "add"}}
SERVER_TOOL = {"type": "web_search_20260318", "name": "web_search"}
WRONG: dict[str, list[tuple[dict[str, Any], str]]] = {
    ANTHROPIC: [
        ({"model": None}, "model: this is required"),
        ({"max_tokens": 0}, "max_tokens: this is required"),
        ({"messages": []}, "messages: this is required"),
        ({"tools": {}, "messages": None}, "messages: this is required"),
        ({"tools": "add"}, "tools[0]: expected"),
        ({"tools": [SERVER_TOOL, {"name": "add"}]}, "tools[1]: expected"),
        ({"tools": [{"input_schema": SCHEMA}]}, "tools[0]: expected"),
    ],
    CHAT: [
        ({"model": ""}, "model: this is required"),
        ({"messages": None}, "messages: this is required"),
        ({"tools": [NESTED, UNNESTED]}, "tools[1]: expected"),
        ({"tools": [{"name": "add"}]}, "tools[0]: expected"),
    ],
    RESPONSES: [
        ({"model": ""}, "model: this is required"),
        ({"input": None}, "input or prompt: this is required"),
        ({"tools": [UNNESTED, NESTED]}, "tools[1]: expected"),
        ({"tools": [{"name": "add"}]}, "tools[0]: expected"),
    ],
}


@pytest.mark.parametrize("path", ROUTES)
def test_invalid_request_is_refused_and_uses_no_reply(path: str) -> None:
    for change, problem in WRONG[path]:
        with MockProvider([SCRIPT]) as provider:
            answer = post(provider, path, {**BODIES[path], **change})
            assert answer[0] == 400
            assert problem in message(answer)
            with pytest.raises(UsageError, match=re.escape(problem)):
                provider.check()
            assert post(provider, path)[0] == 200


def test_custom_check_refuses_requests_and_uses_no_reply() -> None:
    seen: list[tuple[int, int]] = []

    def check(request: testing.ReceivedRequest) -> str | None:
        assert request.body is not None
        seen.append((request.number, len(provider.requests)))
        return "model: unknown" if request.body["model"] == "other" else None

    with MockProvider([SCRIPT], check=check) as provider:
        for path in ROUTES:
            answer = post(provider, path, {**BODIES[path], "model": "other"})
            assert (answer[0], message(answer)) == (400, "model: unknown")
        with pytest.raises(UsageError, match="request 1, POST /v1/messages: model: unknown"):
            provider.check()
        assert post(provider, ANTHROPIC)[0] == 200
    assert [request.status for request in provider.requests] == [400, 400, 400, 200]
    assert seen == [(1, 0), (2, 1), (3, 2), (4, 3)]


def test_custom_check_gets_only_requests_that_would_be_answered() -> None:
    seen: list[testing.ReceivedRequest] = []
    with MockProvider([SCRIPT], check=seen.append) as provider:
        post(provider, "/v1/unknown")
        post(provider, ANTHROPIC, b"no json")
        post(provider, ANTHROPIC, {**BODIES[ANTHROPIC], "model": None})
        assert post(provider, ANTHROPIC)[0] == 200
        assert "has no more replies" in message(post(provider, ANTHROPIC))
    assert [request.number for request in seen] == [4]


def test_key_and_anthropic_version_are_required() -> None:
    with MockProvider(SCRIPT) as provider:
        for path in ROUTES:
            answer = post(provider, path, headers={"anthropic-version": "1"})
            assert answer[0] == 401
            assert "key" in message(answer)
        answer = post(provider, ANTHROPIC, headers={"x-api-key": "any"})
        assert answer[0] == 400
        assert "anthropic-version" in message(answer)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"[" * 100_000])
def test_body_that_is_not_an_object_is_refused(body: bytes) -> None:
    with MockProvider(SCRIPT) as provider:
        answer = post(provider, CHAT, body)
        assert answer[0] == 400
        assert "JSON object" in message(answer)
        assert provider.requests[0].body is None


@pytest.mark.parametrize("of_anthropic", [False, True])
def test_unknown_route_is_a_404_that_lists_the_routes(of_anthropic: bool) -> None:
    headers = HEADERS if of_anthropic else {"authorization": "x"}
    with MockProvider(SCRIPT) as provider:
        for method, path in [("GET", ANTHROPIC), ("POST", "/v1/v1/messages"), ("DELETE", "/")]:
            answer = post(provider, path, b"", method=method, headers=headers)
            assert answer[0] == 404
            assert (json.loads(answer[2]).get("type") == "error") == of_anthropic
            for route in ROUTES:
                assert f"POST {route}" in message(answer)


def test_script_is_read_from_json() -> None:
    add = {"call": "add", "arguments": {"a": 1, "é": [2, "😀"]}}
    cut = {"call": "add", "arguments": '{"a": ', "id": "call_7"}
    options = {"stop": "length", "faults": ["cut=500", "slow=0.1"], "piece_size": 2}
    first = {"parts": [{"think": "Hm – é."}, {"say": "Hello 😀."}, add]}
    expected = Reply(
        CallTool("add", '{"a": ', call_id="call_7"),
        stop="length",
        faults=[Cut(500), Slow(between=0.1)],
        piece_size=2,
    )
    document = {"replies": [first, {"parts": [cut], **options}]}
    assert testing.parse_script(json.dumps(document)) == [SCRIPT, expected]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[]", '"replies"'),
        ('{"replies": []}', '"replies"'),
        ('{"replies": [{"parts": []}], "extra": 1}', '"replies"'),
        ('{"replies": [{"say": "x"}]}', 'reply 1: a reply must be an object with a list "parts"'),
        ('{"replies": [{"parts": [{"says": "x"}]}]}', "reply 1, part 1: a part must be"),
        ('{"replies": [{"parts": [{"call": "x", "arguments": 3}]}]}', "part 1: a part must be"),
        (
            '{"replies": [{"parts": [], "stop": "max_tokens"}]}',
            "reply 1: Reply: stop must be one of",
        ),
        ('{"replies": [{"parts": [], "faults": "cut"}]}', '"faults" must be a list'),
        ('{"replies": [{"parts": [], "faults": ["x"]}]}', "reply 1: unknown fault 'x'"),
        ('{"replies": [{"parts": [], "piece_size": 0}]}', "piece_size"),
        ('{"replies": [{"parts": [], "piece_size": "1"}]}', "piece_size"),
    ],
)
def test_invalid_script_is_explained(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=re.escape(problem)):
        testing.parse_script(text)


def test_reply_is_immutable_and_copies_its_arguments() -> None:
    assert models.Reply is Reply
    arguments = {"a": 1}
    reply = Reply(CallTool("add", arguments))
    arguments["a"] = 2
    assert reply == Reply(CallTool("add", {"a": 1}))
    with pytest.raises(AttributeError):
        reply.stop = "end_turn"  # type: ignore[misc]


def test_empty_reply_is_a_valid_answer() -> None:
    with MockProvider(Reply()) as provider:
        for path in ROUTES:
            assert payloads(stream_body(provider, path))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: MockProvider("hello"),  # type: ignore[arg-type]
        lambda: MockProvider([]),
        lambda: MockProvider(Reply("x"), faults=Cut()),  # type: ignore[arg-type]
        lambda: Reply("x", faults=["cut"]),  # type: ignore[list-item]
        lambda: Cut("x"),  # type: ignore[arg-type]
        lambda: CallTool("", {}),
        lambda: CallTool("f", 5),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_raise_usage_error(wrong: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match=r"needs Reply|must be"):
        wrong()


@pytest.mark.parametrize("path", ROUTES)
def test_recorded_events_are_served_unchanged(path: str, tmp_path: Path) -> None:
    body = served(path)
    file = tmp_path / "answer.sse"
    file.write_bytes(body)
    lines = b"\n".join(frame.data for frame in frames(body))
    # A missing blank line at the end is added, and JSON lines become events.
    for recording in (body, file, str(file), body.rstrip(), lines):
        with MockProvider.replaying(recording) as provider:
            assert stream_body(provider, path) == body
            assert stream_body(provider, path) == body
            assert raw_stream(provider, path).count(b"data: ") == body.count(b"data: ")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_recorded_comments_and_line_ends_are_kept(ending: str) -> None:
    text = ": a comment\n\nid: 1\n" + served(ANTHROPIC).decode()
    body = text.replace("\n", ending).encode()
    with MockProvider.replaying(body) as provider:
        assert stream_body(provider, ANTHROPIC) == body


@pytest.mark.parametrize("path", ROUTES)
def test_recorded_whole_answer_is_refused_to_a_streaming_request(path: str) -> None:
    with MockProvider(SCRIPT) as provider:
        body = post(provider, path)[2]
    with MockProvider.replaying(json.dumps(json.loads(body), indent=2).encode()) as provider:
        assert json.loads(post(provider, path)[2]) == json.loads(body)
        status, _, answer = post(provider, path, streamed=True)
        assert status == 400
        assert b"stream: false" in answer


def test_faults_apply_to_recordings() -> None:
    body = served(CHAT)
    with MockProvider.replaying(body, faults=[Cut("call"), Split()]) as provider:
        received = joined(raw_stream(provider, CHAT))
    assert body.startswith(received)
    assert b'"arguments"' in received
    with MockProvider.replaying(body, faults=[Status(500)]) as provider:
        assert post(provider, CHAT, streamed=True)[0] == 500


def test_recordings_are_served_in_order_to_requests_that_fit() -> None:
    bodies = [served(path) for path in ROUTES]
    with MockProvider.replaying(*bodies) as provider:
        for path, body in zip(ROUTES, bodies, strict=True):
            assert stream_body(provider, path) == body
        assert post(provider, ANTHROPIC, streamed=True)[0] == 400
    with MockProvider.replaying(bodies[0]) as provider:
        assert b"for anthropic, but the request is for openai-chat" in post(provider, CHAT)[2]
        assert b"stream: true" in post(provider, ANTHROPIC)[2]


@pytest.mark.parametrize("data", [b"", b"hello", b"{}", b"data: {}\n\n", b'{"bytes": "eA=="}'])
def test_data_that_is_no_recording_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a recording of Anthropic Messages"):
        MockProvider.replaying(data)
    with pytest.raises(UsageError, match=r"cannot read .*No such file"):
        MockProvider.replaying(tmp_path / "none.sse")
