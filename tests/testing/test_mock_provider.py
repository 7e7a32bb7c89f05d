"""The mock provider as a server: its bytes, its checks, its scripts and its recordings."""

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from argstream import UsageError
from argstream.testing import (
    CallTool,
    Cut,
    ErrorEvent,
    Fault,
    Malformed,
    MockProvider,
    ReceivedRequest,
    Reply,
    Say,
    Slow,
    Split,
    Status,
    parse_fault,
    parse_script,
)
from argstream.wire import Frame, SseDecoder
from tests.testing.posting import BODIES, HEADERS, KEY, ROUTES, SCRIPT, post


def stream_body(provider: MockProvider, path: str) -> bytes:
    return post(provider, path, streamed=True)[2]


def payloads(body: bytes) -> list[Any]:
    decoder = SseDecoder()
    frames = [frame for frame in decoder.feed(body) if isinstance(frame, Frame)]
    assert decoder.close() == []
    return [json.loads(frame.data) for frame in frames if frame.data != b"[DONE]"]


def raw_stream(provider: MockProvider, path: str) -> bytes:
    """Everything that came over the connection, to its end."""
    host, port = provider.url.removeprefix("http://").split(":")
    body = json.dumps({**BODIES[path], "stream": True}).encode()
    lines = [f"POST {path} HTTP/1.1", "host: x", "connection: close"]
    lines += [f"{name}: {value}" for name, value in HEADERS.items()]
    head = "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode()
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(head + body)
        received = b""
        while data := connection.recv(65536):
            received += data
    return received.partition(b"\r\n\r\n")[2]


def served(path: str, *faults: Fault, script: Reply = SCRIPT) -> bytes:
    """The body of a stream with these faults."""
    with MockProvider(script, faults=faults) as provider:
        return stream_body(provider, path)


def served_raw(path: str, *faults: Fault, script: Reply = SCRIPT) -> bytes:
    """The same with the chunks of HTTP, also if it is cut."""
    with MockProvider(script, faults=faults) as provider:
        return raw_stream(provider, path)


def unknown_fields(value: object) -> set[str]:
    """What a payload has that its type does not."""
    match value:
        case BaseModel():
            own = set(value.model_extra or ())
            return own.union(*(unknown_fields(getattr(value, name)) for name in value.__dict__))
        case list():
            return set().union(*map(unknown_fields, value))
        case _:
            return set()


class TestShapes:
    """The clients do not check what they get, so this does, with their own types."""

    @pytest.mark.parametrize(
        ("path", "type_"),
        [
            ("/v1/messages", RawMessageStreamEvent),
            ("/v1/chat/completions", ChatCompletionChunk),
            ("/v1/responses", ResponseStreamEvent),
        ],
    )
    @pytest.mark.parametrize("stop", [None, "max_tokens"])
    def test_every_event_is_one_of_the_api(self, path: str, type_: Any, stop: Any) -> None:
        adapter: TypeAdapter[object] = TypeAdapter(type_)
        found = payloads(served(path, script=Reply(*SCRIPT.parts, stop=stop)))
        for payload in found:
            if payload == {"type": "ping"}:
                continue
            event = adapter.validate_python(payload)
            assert unknown_fields(event) <= {"reasoning_content", "store"}

    @pytest.mark.parametrize(
        ("path", "type_"),
        [
            ("/v1/messages", Message),
            ("/v1/chat/completions", ChatCompletion),
            ("/v1/responses", Response),
        ],
    )
    def test_every_whole_answer_is_one_of_the_api(self, path: str, type_: Any) -> None:
        with MockProvider(SCRIPT) as provider:
            answer = type_.model_validate_json(post(provider, path)[2])
        assert unknown_fields(answer) <= {"reasoning_content", "store"}

    def test_events_are_named_where_the_api_names_them(self) -> None:
        for path, named in zip(ROUTES, [True, False, True], strict=True):
            for frame in SseDecoder().feed(served(path)):
                assert isinstance(frame, Frame)
                assert frame.event == (json.loads(frame.data)["type"] if named else "")

    def test_usage_comes_in_chat_if_it_was_asked_for(self) -> None:
        body = {**BODIES[ROUTES[1]], "stream": True, "stream_options": {"include_usage": True}}
        with MockProvider(SCRIPT) as provider:
            *others, last = payloads(post(provider, ROUTES[1], body)[2])
            without = payloads(stream_body(provider, ROUTES[1]))
        assert last["choices"] == []
        assert last["usage"]["prompt_tokens"] == 100
        assert all(chunk["usage"] is None for chunk in others)
        assert not any("usage" in chunk for chunk in without)

    def test_half_a_surrogate_pair_can_be_said(self) -> None:
        assert b"\\ud800" in served(ROUTES[0], script=Reply("a\ud800b", piece_size=100))


class TestBytes:
    @pytest.mark.parametrize("path", ROUTES)
    def test_each_event_is_a_chunk_of_its_own(self, path: str) -> None:
        body = served_raw(path)
        chunks = body.split(b"\r\n")
        assert chunks[-3:] == [b"0", b"", b""]
        for size, data in zip(chunks[:-3:2], chunks[1:-3:2], strict=True):
            assert int(size, 16) == len(data)
            assert data.endswith(b"\n\n")
            assert data.count(b"data: ") == 1

    def test_split_makes_every_byte_a_chunk(self) -> None:
        body = served_raw(ROUTES[0], Split())
        whole = served(ROUTES[0])
        chunk = re.compile(rb"1\r\n(.)\r\n", re.DOTALL)
        assert chunk.sub(rb"\1", body) == whole + b"0\r\n\r\n"

    def test_random_splits_are_those_of_the_seed(self) -> None:
        one, again, other = (served_raw(ROUTES[0], Split((20,), seed=seed)) for seed in (1, 1, 2))
        assert one == again != other

    @pytest.mark.parametrize("at", [0, 1, 300])
    def test_a_cut_ends_after_so_many_bytes_without_the_last_chunk(self, at: int) -> None:
        whole = served(ROUTES[0])
        body = served_raw(ROUTES[0], Cut(at), Split())
        assert re.sub(rb"(?s)1\r\n(.)\r\n", rb"\1", body) == whole[:at]

    @pytest.mark.parametrize("path", ROUTES)
    def test_a_cut_in_the_call_is_in_the_call(self, path: str) -> None:
        body = served_raw(path, Cut("call"))
        before, _, last = body.rpartition(b"\r\n")[0].rpartition(b"\r\n")
        assert b"arguments" in before or b"partial_json" in before
        assert not last.endswith(b"\n\n")

    @pytest.mark.parametrize("path", ROUTES)
    def test_without_a_call_the_middle_is_that_of_the_answer(self, path: str) -> None:
        script = Reply("Hello, hello.")
        assert b"content" in served_raw(path, Cut("call"), script=script)

    @pytest.mark.parametrize("path", ROUTES)
    def test_malformed_is_one_payload_and_the_rest_is_as_it_was(self, path: str) -> None:
        good, bad = served(path).split(b"\n\n"), served(path, Malformed(3)).split(b"\n\n")
        assert [n for n, pair in enumerate(zip(good, bad, strict=True)) if pair[0] != pair[1]] == [
            3
        ]
        data = bad[3].partition(b"data: ")[2]
        assert data
        with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
            json.loads(data)

    @pytest.mark.parametrize("path", ROUTES)
    def test_an_error_event_is_the_last(self, path: str) -> None:
        found = payloads(served(path, ErrorEvent(2, message="no more")))
        assert len(found) == 3
        assert found[-1]["error"]["message"] == "no more"
        if path == "/v1/responses":
            assert found[-1]["sequence_number"] == 2

    def test_a_place_after_the_end_is_the_end(self) -> None:
        assert payloads(served(ROUTES[0], ErrorEvent(999)))[-1]["type"] == "error"
        assert served(ROUTES[0], Malformed(999)).endswith(b"\n\n")

    @pytest.mark.parametrize(
        ("status", "type_", "code"),
        [
            (429, "rate_limit_error", "rate_limit_exceeded"),
            (500, "api_error", "server_error"),
            (529, "overloaded_error", "overloaded"),
            (418, "invalid_request_error", None),
        ],
    )
    def test_a_status_has_the_body_of_the_api(
        self, status: int, type_: str, code: str | None
    ) -> None:
        with MockProvider(SCRIPT, faults=[Status(status)]) as provider:
            answers = [post(provider, path) for path in ROUTES]
        assert [answer[0] for answer in answers] == [status] * 3
        assert [("retry-after" in answer[1]) for answer in answers] == [status == 429] * 3
        of_anthropic, of_chat, of_responses = (json.loads(answer[2]) for answer in answers)
        assert of_anthropic["type"] == "error"
        assert of_anthropic["error"]["type"] == type_
        assert of_chat["error"]["code"] == code
        assert of_chat == of_responses


class TestServer:
    def test_it_listens_on_the_loopback_interface_only(self) -> None:
        with MockProvider(SCRIPT) as provider:
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+", provider.url)
            assert provider.anthropic_url == provider.url
            assert provider.openai_url == provider.url + "/v1"

    def test_nothing_is_left_when_it_is_stopped(self) -> None:
        before = threading.active_count()
        provider = MockProvider(SCRIPT).start()
        host, port = provider.url.removeprefix("http://").split(":")
        idle = socket.create_connection((host, int(port)), timeout=5)
        post(provider, ROUTES[0])
        provider.stop()
        provider.stop()
        assert idle.recv(1) == b"", "a connection that waits is closed too"
        idle.close()
        assert threading.active_count() == before
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=5)
        assert len(provider.requests) == 1

    def test_a_connection_serves_many_requests(self) -> None:
        with MockProvider(SCRIPT) as provider:
            connection = http.client.HTTPConnection(provider.url.removeprefix("http://"), timeout=5)
            for streamed in (True, False, True):
                body = json.dumps({**BODIES[ROUTES[0]], "stream": streamed})
                connection.request("POST", ROUTES[0], body, HEADERS)
                response = connection.getresponse()
                assert response.status == 200
                assert response.read()
            connection.close()

    def test_it_can_be_used_again_and_not_twice_at_once(self) -> None:
        provider = MockProvider(SCRIPT)
        with pytest.raises(UsageError, match="no address until it runs"):
            provider.url  # noqa: B018
        for _ in range(2):
            with provider:
                assert post(provider, ROUTES[0])[0] == 200
                with pytest.raises(UsageError, match="running already"):
                    provider.start()

    def test_a_port_that_is_taken_is_said(self) -> None:
        with MockProvider(SCRIPT) as provider:
            port = int(provider.url.rpartition(":")[2])
            with pytest.raises(UsageError, match=f"port {port}.*0 for any free one"):
                MockProvider(SCRIPT, port=port).start()
        with pytest.raises(UsageError, match="port 70000"):
            MockProvider(SCRIPT, port=70000).start()

    def test_each_request_is_told_when_it_comes(self) -> None:
        told: list[Any] = []
        with MockProvider(SCRIPT, on_request=told.append) as provider:
            post(provider, ROUTES[0])
            assert told == provider.requests

    @pytest.mark.parametrize("headers", [{"transfer-encoding": "chunked"}, {"content-length": "x"}])
    def test_a_body_of_unknown_length_is_refused(self, headers: dict[str, str]) -> None:
        with MockProvider(SCRIPT) as provider:
            connection = http.client.HTTPConnection(provider.url.removeprefix("http://"), timeout=5)
            connection.putrequest("POST", ROUTES[0])
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            assert response.status in (400, 411)
            response.read()
            connection.close()
            assert post(provider, ROUTES[0])[0] == 200


class TestSecrets:
    def test_no_key_is_kept(self) -> None:
        headers = {**HEADERS, "cookie": KEY, "x-goog-api-key": KEY, "user-agent": "test"}
        with MockProvider(SCRIPT) as provider:
            post(provider, f"/v1/unknown?key={KEY}", headers=headers)
            post(provider, ROUTES[0], b"no json", headers=headers)
            post(provider, ROUTES[0], headers=headers)
        assert KEY not in repr(provider.requests)
        with pytest.raises(UsageError) as caught:
            provider.check()
        assert KEY not in str(caught.value)
        request = provider.requests[2]
        assert request.headers["x-api-key"] == "[removed]"
        assert request.headers["user-agent"] == "test"
        assert (request.method, request.path, request.status) == ("POST", ROUTES[0], 200)
        assert request.body == {**BODIES[ROUTES[0]], "stream": False}


SCHEMA = {"type": "object", "properties": {}}
WRONG: dict[str, list[tuple[dict[str, Any], str]]] = {
    "/v1/messages": [
        ({"model": None}, "model: "),
        ({"max_tokens": None}, "max_tokens: "),
        ({"max_tokens": 0}, "max_tokens: "),
        ({"messages": []}, "messages: "),
        ({"messages": ["hi"]}, "messages.0: must be an object"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role: "),
        ({"stream": "yes"}, "stream: "),
        ({"tools": [{"name": "add"}]}, "tools.0.input_schema: "),
        ({"tools": [{"input_schema": SCHEMA}]}, "tools.0.name: "),
    ],
    "/v1/chat/completions": [
        ({"model": 3}, "model: "),
        ({"messages": None}, "messages: "),
        ({"messages": [{"role": "bot"}]}, "messages.0.role: "),
        (
            {"tools": [{"type": "function", "name": "add", "parameters": SCHEMA}]},
            "tools.0.function: ",
        ),
        ({"tools": [{"name": "add"}]}, "tools.0.type: "),
    ],
    "/v1/responses": [
        ({"model": ""}, "model: "),
        ({"input": None}, "input: "),
        ({"tools": [{"type": "function", "function": {"name": "add"}}]}, "tools.0.name: "),
        ({"tools": [{"name": "add"}]}, "tools.0.type: "),
    ],
}


class TestChecks:
    @pytest.mark.parametrize(
        ("path", "change", "problem"),
        [(path, *row) for path, rows in WRONG.items() for row in rows],
    )
    def test_what_is_no_request_of_the_api_is_refused(
        self, path: str, change: dict[str, Any], problem: str
    ) -> None:
        with MockProvider([SCRIPT]) as provider:
            status, _, body = post(provider, path, {**BODIES[path], **change})
            assert status == 400
            assert problem in json.loads(body)["error"]["message"]
            with pytest.raises(UsageError, match=re.escape(problem)):
                provider.check()
            assert post(provider, path)[0] == 200, "it used no reply"

    def test_a_check_can_refuse_more(self) -> None:
        seen: list[tuple[int, int]] = []

        def check(request: ReceivedRequest) -> str | None:
            assert request.body is not None
            seen.append((request.number, len(provider.requests)))
            return "model: unknown" if request.body["model"] == "other" else None

        with MockProvider([SCRIPT], check=check) as provider:
            for path in ROUTES:
                status, _, body = post(provider, path, {**BODIES[path], "model": "other"})
                assert status == 400
                assert json.loads(body)["error"]["message"] == "model: unknown"
            with pytest.raises(UsageError, match="request 1, POST /v1/messages: model: unknown"):
                provider.check()
            assert post(provider, ROUTES[0])[0] == 200, "a refused request used no reply"
        assert [request.status for request in provider.requests] == [400, 400, 400, 200]
        assert seen == [(1, 0), (2, 1), (3, 2), (4, 3)]

    def test_a_check_sees_only_requests_that_would_be_answered(self) -> None:
        seen: list[ReceivedRequest] = []
        with MockProvider([SCRIPT], check=seen.append) as provider:
            post(provider, "/v1/unknown")
            post(provider, ROUTES[0], b"no json")
            post(provider, ROUTES[0], {**BODIES[ROUTES[0]], "model": None})
            assert post(provider, ROUTES[0])[0] == 200
            assert post(provider, ROUTES[0])[0] == 400, "the script is over"
        assert [request.number for request in seen] == [4]

    @pytest.mark.parametrize("path", ROUTES)
    def test_a_request_without_a_key_is_not_allowed(self, path: str) -> None:
        with MockProvider(SCRIPT) as provider:
            status, _, body = post(provider, path, headers={"anthropic-version": "1"})
        assert status == 401
        assert "key" in json.loads(body)["error"]["message"]

    def test_anthropic_wants_a_version(self) -> None:
        with MockProvider(SCRIPT) as provider:
            status, _, body = post(provider, ROUTES[0], headers={"x-api-key": "any"})
        assert status == 400
        assert "anthropic-version" in json.loads(body)["error"]["message"]

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"[" * 100_000])
    def test_a_body_that_is_no_object_is_refused(self, body: bytes) -> None:
        with MockProvider(SCRIPT) as provider:
            status, _, answer = post(provider, ROUTES[1], body)
            assert status == 400
            assert "JSON object" in json.loads(answer)["error"]["message"]
            assert provider.requests[0].body is None

    @pytest.mark.parametrize(
        ("method", "path"), [("GET", ROUTES[0]), ("POST", "/v1/v1/messages"), ("DELETE", "/")]
    )
    @pytest.mark.parametrize("of_anthropic", [False, True])
    def test_an_unknown_route_names_those_there_are(
        self, method: str, path: str, of_anthropic: bool
    ) -> None:
        headers = HEADERS if of_anthropic else {"authorization": "x"}
        with MockProvider(SCRIPT) as provider:
            status, _, body = post(provider, path, b"", method=method, headers=headers)
        answer = json.loads(body)
        assert status == 404
        assert (answer.get("type") == "error") == of_anthropic
        for route in ROUTES:
            assert f"POST {route}" in answer["error"]["message"]


class TestScripts:
    def test_a_file_says_the_same(self) -> None:
        document = {
            "replies": [
                {
                    "parts": [
                        {"think": "Hm – é."},
                        {"say": "Hello 😀."},
                        {"call": "add", "arguments": {"a": 1, "é": [2, "😀"]}},
                    ]
                },
                {
                    "parts": [{"call": "add", "arguments": '{"a": ', "id": "call_7"}],
                    "stop": "max_tokens",
                    "faults": ["cut=500", "slow=0.1"],
                    "piece_size": 2,
                },
            ]
        }
        assert parse_script(json.dumps(document)) == [
            SCRIPT,
            Reply(
                CallTool("add", '{"a": ', call_id="call_7"),
                stop="max_tokens",
                faults=[Cut(500), Slow(between=0.1)],
                piece_size=2,
            ),
        ]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "not JSON"),
            ("[]", '"replies"'),
            ('{"replies": []}', '"replies"'),
            ('{"replies": [{"parts": []}], "extra": 1}', '"replies"'),
            ('{"replies": [{"say": "x"}]}', 'reply 1: a reply is an object with "parts"'),
            ('{"replies": [{"parts": [{"says": "x"}]}]}', "reply 1, part 1: a part is"),
            ('{"replies": [{"parts": [{"call": "x", "arguments": 3}]}]}', "part 1: a part is"),
            ('{"replies": [{"parts": [], "stop": "length"}]}', "reply 1: Reply: stop is one of"),
            ('{"replies": [{"parts": [], "faults": "cut"}]}', '"faults" is a list'),
            ('{"replies": [{"parts": [], "faults": ["x"]}]}', "reply 1: no fault is called 'x'"),
            ('{"replies": [{"parts": [], "piece_size": 0}]}', "piece_size"),
            ('{"replies": [{"parts": [], "piece_size": "1"}]}', "piece_size"),
        ],
    )
    def test_what_is_wrong_with_a_file_is_said(self, text: str, message: str) -> None:
        with pytest.raises(UsageError, match=re.escape(message)):
            parse_script(text)

    def test_a_script_cannot_be_changed(self) -> None:
        arguments = {"a": 1}
        reply = Reply(CallTool("add", arguments))
        arguments["a"] = 2
        assert reply == Reply(CallTool("add", {"a": 1}))
        with pytest.raises(AttributeError):
            reply.stop = "end_turn"  # type: ignore[misc]

    def test_there_is_always_something_to_say(self) -> None:
        with pytest.raises(UsageError, match="at least one"):
            MockProvider([])
        with MockProvider(Reply()) as provider:
            for path in ROUTES:
                assert payloads(stream_body(provider, path))


class TestFaultTexts:
    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("cut", Cut("call")),
            ("cut=500", Cut(500)),
            ("cut=call", Cut("call")),
            ("error=3", ErrorEvent(3)),
            ("error", ErrorEvent("call")),
            ("malformed=0", Malformed(0)),
            ("status=429", Status(429)),
            ("slow=0.5", Slow(between=0.5)),
            ("wait=2", Slow(before=2)),
            ("total=3", Slow(total=3)),
            ("split", Split((1,))),
            ("split=7", Split((7,))),
            ("split=random", Split((64,), seed=0)),
            ("split=random:9", Split((64,), seed=9)),
        ],
    )
    def test_a_fault_is_read(self, text: str, fault: Fault) -> None:
        assert parse_fault(text) == fault

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("cot=3", "no fault is called 'cot'; there are: cut=BYTES, cut=call"),
            ("cut=x", "write cut=BYTES or cut=call"),
            ("cut=-1", "a number from 0"),
            ("status=200", "from 400 to 599"),
            ("status", "write status=429"),
            ("slow=nan", "seconds from 0"),
            ("slow=-1", "seconds from 0"),
            ("split=0", "sizes of 1 or more"),
        ],
    )
    def test_one_that_cannot_be_is_explained(self, text: str, message: str) -> None:
        with pytest.raises(UsageError, match=re.escape(message)):
            parse_fault(text)


class TestRecordings:
    @pytest.mark.parametrize("path", ROUTES)
    def test_events_are_served_as_they_are(self, path: str, tmp_path: Path) -> None:
        body = served(path)
        file = tmp_path / "answer.sse"
        file.write_bytes(body)
        for recording in (body, file, str(file)):
            with MockProvider.replaying(recording) as provider:
                assert stream_body(provider, path) == body
                assert stream_body(provider, path) == body
                assert raw_stream(provider, path).count(b"data: ") == body.count(b"data: ")

    @pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
    def test_comments_and_any_line_ends_are_kept(self, ending: str) -> None:
        text = ": a comment\n\nid: 1\n" + served(ROUTES[0]).decode()
        body = text.replace("\n", ending).encode()
        with MockProvider.replaying(body) as provider:
            assert stream_body(provider, ROUTES[0]) == body

    def test_a_missing_blank_line_at_the_end_is_added(self) -> None:
        body = served(ROUTES[0])
        with MockProvider.replaying(body.rstrip()) as provider:
            assert stream_body(provider, ROUTES[0]) == body

    @pytest.mark.parametrize("path", ROUTES)
    def test_json_lines_become_events(self, path: str) -> None:
        body = served(path)
        decoder = SseDecoder()
        frames = [frame for frame in decoder.feed(body) if isinstance(frame, Frame)]
        lines = b"\n".join(frame.data for frame in frames if frame.data != b"[DONE]")
        with MockProvider.replaying(lines) as provider:
            assert stream_body(provider, path) == body

    @pytest.mark.parametrize("path", ROUTES)
    def test_a_whole_answer_is_served_whole(self, path: str) -> None:
        with MockProvider(SCRIPT) as provider:
            body = post(provider, path)[2]
        with MockProvider.replaying(json.dumps(json.loads(body), indent=2).encode()) as provider:
            assert json.loads(post(provider, path)[2]) == json.loads(body)
            status, _, answer = post(provider, path, streamed=True)
            assert status == 400
            assert b"stream: false" in answer

    def test_faults_are_made_in_a_recording_too(self) -> None:
        body = served(ROUTES[1])
        with MockProvider.replaying(body, faults=[Cut("call"), Split()]) as provider:
            received = re.sub(rb"(?s)1\r\n(.)\r\n", rb"\1", raw_stream(provider, ROUTES[1]))
        assert body.startswith(received)
        assert b'"arguments"' in received
        with MockProvider.replaying(body, faults=[Status(500)]) as provider:
            assert post(provider, ROUTES[1], streamed=True)[0] == 500

    def test_several_are_answers_one_after_the_other(self) -> None:
        bodies = [served(path) for path in ROUTES]
        with MockProvider.replaying(*bodies) as provider:
            for path, body in zip(ROUTES, bodies, strict=True):
                assert stream_body(provider, path) == body
            assert post(provider, ROUTES[0], streamed=True)[0] == 400

    def test_what_does_not_fit_the_request_is_said(self) -> None:
        with MockProvider.replaying(served(ROUTES[0])) as provider:
            assert b"of anthropic, not of openai-chat" in post(provider, ROUTES[1])[2]
            assert b"stream: true" in post(provider, ROUTES[0])[2]

    @pytest.mark.parametrize("data", [b"", b"hello", b"{}", b"data: {}\n\n", b'{"bytes": "eA=="}'])
    def test_what_is_no_recording_is_refused(self, data: bytes) -> None:
        with pytest.raises(UsageError, match="no recording of Anthropic Messages"):
            MockProvider.replaying(data)

    def test_a_file_that_cannot_be_read_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"cannot read .*No such file"):
            MockProvider.replaying(tmp_path / "none.sse")


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
def test_wrong_use_is_refused_with_what_would_be_right(wrong: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match=r"give|is a list|are a mapping|say where"):
        wrong()


# Clients that go away


def test_a_client_that_hangs_up_is_noticed_with_how_much_was_sent() -> None:
    long = Reply(Say("word " * 2000), faults=[Slow(between=0.001)])
    with MockProvider(long) as provider:
        connection = http.client.HTTPConnection("127.0.0.1", int(provider.url.rpartition(":")[2]))
        body = json.dumps({**BODIES["/v1/messages"], "stream": True})
        connection.request("POST", "/v1/messages", body, HEADERS)
        response = connection.getresponse()
        response.read(10)
        response.close()
        connection.close()
        deadline = time.monotonic() + 10
        while not provider.hang_ups and time.monotonic() < deadline:
            time.sleep(0.005)
        ((sent, whole),) = provider.hang_ups
        assert 0 < sent < whole


def test_a_client_that_reads_to_the_end_has_not_hung_up() -> None:
    with MockProvider(SCRIPT) as provider:
        post(provider, "/v1/messages", {**BODIES["/v1/messages"], "stream": True})
        assert provider.hang_ups == []
