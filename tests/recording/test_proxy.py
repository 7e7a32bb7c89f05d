"""The recording proxy between real clients and a provider, or a socket that behaves badly."""

import gzip
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from argstream import UsageError, stream, testing
from argstream.events import Event
from argstream.recording import Recording, Request, Response, read_recording
from argstream.recording.proxy import Exchange, RecordingProxy
from argstream.testing import CallTool, Fault, MockProvider, Reply, Say, Slow, Split, Think, cut
from tests.models import over_http
from tests.models.over_http import say, serving
from tests.testing.test_mock_provider_clients import ANTHROPIC, CHAT, RESPONSES, client_of

KEY = "sk-ant-api03-CANARY-0123456789-abcdef"
SCRIPT = Reply(
    Think("They want a file – a small one."),
    Say("I write it: 😀."),
    CallTool("write_file", {"path": "a.txt", "content": 'é "quoted"\n😀\\', "tags": ["x", None]}),
    CallTool("list_files", {}),
)
anthropic_client = partial(client_of, "anthropic", api_key=KEY)
openai_client = partial(client_of, "openai", api_key=KEY)


@contextmanager
def mocked(directory: Path, *script: Reply, faults: Sequence[Fault] = ()) -> Iterator[str]:
    """Yield the URL of a proxy in front of a mock provider."""
    answers = script[0] if len(script) == 1 else script
    with (
        MockProvider(answers, faults=faults) as provider,
        RecordingProxy(provider.url, directory) as proxy,
    ):
        yield proxy.url
        provider.check()


def events_of(file: Path) -> list[Event]:
    with file.open("rb") as recording:
        return list(stream(recording))


def recordings(directory: Path) -> list[Recording]:
    return [read_recording(file) for file in sorted(directory.iterdir())]


def response_of(recording: Recording) -> Response:
    assert recording.header.response is not None
    return recording.header.response


def request_of(recording: Recording) -> Request:
    assert recording.header.request is not None
    return recording.header.request


@pytest.mark.parametrize("faults", [(), (Split((31,)),)])
def test_recordings_of_the_sdks_have_the_events_of_the_live_streams(
    tmp_path: Path, faults: tuple[Split, ...]
) -> None:
    with (
        mocked(tmp_path, SCRIPT, faults=faults) as url,
        anthropic_client(url) as claude,
        openai_client(url) as gpt,
    ):
        with claude.messages.stream(**ANTHROPIC) as turn:
            live = [list(stream(turn))]
        live.append(list(stream(claude.messages.create(**ANTHROPIC, stream=True))))
        live.append(list(stream(gpt.chat.completions.create(**CHAT, stream=True))))
        live.append(list(stream(gpt.responses.create(**RESPONSES, stream=True))))
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files][1:3] == ["0002-messages.rec", "0003-chat-completions.rec"]
    assert [events_of(file) for file in files] == live
    assert live[0][-1].type == "turn_completed"
    assert {recording.ending for recording in recordings(tmp_path)} == {"orderly"}


def test_whole_answers_and_errors_are_recorded(tmp_path: Path) -> None:
    import anthropic

    replies = [Reply(Say("hello")), Reply(Say("no"), faults=[testing.Status(401)])]
    with mocked(tmp_path, *replies) as url, anthropic_client(url) as client:
        message = client.messages.create(**ANTHROPIC)
        (whole,) = recordings(tmp_path)  # complete as soon as the client has its answer
        with pytest.raises(anthropic.AuthenticationError, match="401"):
            client.messages.create(**ANTHROPIC)
    assert json.loads(whole.data)["id"] == message.id
    assert whole.ending == "orderly"
    refused = response_of(recordings(tmp_path)[1])
    assert (refused.status, refused.headers["content-type"]) == (401, "application/json")


def test_concurrent_requests_get_a_file_each(tmp_path: Path) -> None:
    with (
        mocked(tmp_path, SCRIPT, faults=[Slow(between=0.002)]) as url,
        anthropic_client(url) as client,
        ThreadPoolExecutor(8) as pool,
    ):

        def ask(_: int) -> list[Event]:
            return list(stream(client.messages.create(**ANTHROPIC, stream=True)))

        live = list(pool.map(ask, range(8)))
    seen = [events_of(file) for file in sorted(tmp_path.iterdir())]
    assert len(seen) == 8
    for events in live:
        seen.remove(events)
    assert seen == []


def test_chunks_are_recorded_with_their_times(tmp_path: Path) -> None:
    slow = Slow(between=0.02, before=0.1)
    with mocked(tmp_path, Reply(Say("ab")), faults=[slow]) as url, anthropic_client(url) as client:
        list(client.messages.create(**ANTHROPIC, stream=True))
    times = [chunk.at for chunk in recordings(tmp_path)[0].chunks]
    assert times[0] >= 0.1
    assert times == sorted(times)
    assert (times[-1] - times[0]) / (len(times) - 1) > 0.018


# A provider of which the tests decide every byte

HEAD_IN_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nSet-Cookie: c=1\r\n\r\n"
HEAD_UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
HEAD_OF_TEN = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
TEN = b"0123456789"
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def in_chunks(*pieces: bytes) -> list[bytes]:
    return [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]


@contextmanager
def proxied(
    directory: Path,
    *pieces: bytes,
    answer: Callable[[socket.socket], None] | None = None,
    received: list[bytes] | None = None,
    base: str = "",
    **options: Any,
) -> Iterator[RecordingProxy]:
    """Start a proxy in front of a provider that answers one request, by default these pieces."""
    with (
        serving(answer or say(*pieces), reads_bodies=False) as served,
        RecordingProxy(served.url + base, directory, **options) as proxy,
    ):
        yield proxy
    assert len(served.requests) == 1
    if received is not None:
        received += served.requests


def connected(proxy: RecordingProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(proxy.url.rpartition(":")[2])))


@contextmanager
def asking(
    url: str, path: str = "/v1/x", method: str = "GET", **headers: str
) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
    with closing(connection):
        connection.request(method, path, headers=headers)
        with closing(connection.getresponse()) as response:
            yield response


def ask(url: str, path: str = "/v1/x", **headers: str) -> tuple[int, bytes]:
    with asking(url, path, **headers) as response:
        return response.status, response.read()


def test_each_chunk_is_forwarded_at_once(tmp_path: Path) -> None:
    body = [b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"]
    go_on = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD_IN_CHUNKS)
        for chunk in in_chunks(*body):
            connection.sendall(chunk)
            assert go_on.wait(10)
            go_on.clear()
        connection.sendall(LAST_CHUNK)

    with proxied(tmp_path, answer=answer) as proxy, asking(proxy.url) as response:
        for chunk in body:
            assert response.read1(100) == chunk
            go_on.set()
        assert response.read1(100) == b""
    assert [chunk.data for chunk in recordings(tmp_path)[0].chunks] == body


@pytest.mark.parametrize(
    "pieces",
    [
        (HEAD_IN_CHUNKS, b"5\r\nhello\r\n"),
        (HEAD_IN_CHUNKS, b"50\r\nhello"),
        (HEAD_OF_TEN, b"hello"),
    ],
)
def test_cut_answer_is_cut_for_the_client_too(tmp_path: Path, pieces: tuple[bytes, ...]) -> None:
    with proxied(tmp_path, *pieces) as proxy, pytest.raises(http.client.IncompleteRead):
        ask(proxy.url)
    (recording,) = recordings(tmp_path)
    assert recording.data == b"hello"
    assert recording.end[1:3] == ("cut", "the provider disconnected before its response ended")
    assert proxy.exchanges[0].ending == "cut"


def test_body_without_a_length_ends_with_a_close_but_not_with_a_reset(tmp_path: Path) -> None:
    with proxied(tmp_path, HEAD_UNTIL_CLOSE, b"hello") as proxy:
        assert ask(proxy.url) == (200, b"hello")
    go_on = threading.Event()

    def reset(connection: socket.socket) -> None:
        connection.sendall(HEAD_UNTIL_CLOSE + b"hello")
        assert go_on.wait(10)
        over_http.reset(connection)

    with proxied(tmp_path, answer=reset) as proxy, asking(proxy.url) as response:
        assert response.read1(100) == b"hello"
        go_on.set()
        with pytest.raises(http.client.IncompleteRead):
            response.read()
    assert [recording.ending for recording in recordings(tmp_path)] == ["orderly", "cut"]


@pytest.mark.parametrize("begun", [HEAD_IN_CHUNKS + b"5\r\nhello\r\n", b""])
def test_client_that_hangs_up_ends_the_request(tmp_path: Path, begun: bytes) -> None:
    """Also while the provider sends nothing: the rest would have to be paid for."""
    hung_up = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(begun)
        connection.settimeout(10)
        if connection.recv(1) == b"":
            hung_up.set()

    with proxied(tmp_path, answer=answer) as proxy:
        with connected(proxy) as client:
            client.sendall(GET)
            while begun and b"hello" not in client.recv(1000):
                pass
        assert hung_up.wait(10)
    (exchange,) = proxy.exchanges
    assert (exchange.status, exchange.ending) == (200 if begun else 499, "aborted")
    ends = [(recording.data, *recording.end[1:3]) for recording in recordings(tmp_path)]
    assert ends == [(b"hello", "aborted", "the client disconnected")] * bool(begun)


@pytest.mark.parametrize("header", ["Content-Length: 9", "Transfer-Encoding: chunked"])
def test_client_that_breaks_off_its_request_gets_no_answer(tmp_path: Path, header: str) -> None:
    with RecordingProxy("http://127.0.0.1:1", tmp_path) as proxy, connected(proxy) as client:
        client.sendall(f"POST / HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n".encode())
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b""
    assert proxy.exchanges[0].status == 499


def test_client_that_closes_after_the_last_event_has_not_aborted(tmp_path: Path) -> None:
    closed = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD_IN_CHUNKS + b"e\r\ndata: [DONE]\n\n\r\n")
        assert closed.wait(10)
        connection.sendall(LAST_CHUNK)

    done = threading.Event()
    with proxied(tmp_path, answer=answer, on_exchange=lambda _: done.set()) as proxy:
        with asking(proxy.url) as response:
            assert response.read1(100) == b"data: [DONE]\n\n"
        closed.set()
        assert done.wait(10)
    assert recordings(tmp_path)[0].ending == "orderly"


def test_stop_ends_a_connection_attempt(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it does not answer TLS
        proxy = RecordingProxy(f"https://127.0.0.1:{silent.getsockname()[1]}", tmp_path).start()
        with connected(proxy) as client:
            client.sendall(GET)
            connecting, _ = silent.accept()
            start = time.monotonic()
            proxy.stop()
            assert time.monotonic() - start < 10  # it would try for 30 seconds
            connecting.close()
    assert proxy.exchanges[0].problem == "the proxy was stopped"


def test_stop_ends_running_answers(tmp_path: Path) -> None:
    import anthropic

    with MockProvider(SCRIPT, faults=[Slow(between=30)]) as provider:
        proxy = RecordingProxy(provider.url, tmp_path).start()
        with anthropic_client(proxy.url) as client:
            turn = iter(client.messages.create(**ANTHROPIC, stream=True))
            next(turn)
            start = time.monotonic()
            proxy.stop()
            assert time.monotonic() - start < 10
            with pytest.raises((anthropic.APIConnectionError, httpx2.RemoteProtocolError)):
                next(turn)
    assert recordings(tmp_path)[0].end[1:3] == ("aborted", "the proxy was stopped")


def test_informational_answer_is_skipped_and_a_protocol_switch_refused(tmp_path: Path) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    with proxied(tmp_path, hints, hints + HEAD_OF_TEN, TEN) as proxy:
        assert ask(proxy.url) == (200, TEN)
    assert response_of(recordings(tmp_path)[0]).status == 200
    switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nxxxx"
    with proxied(tmp_path, switch) as proxy:
        status, body = ask(proxy.url)
    assert status == 502
    assert b"switched protocols (101)" in body


@pytest.mark.parametrize(
    ("path", "is_recorded"),
    [
        ("/v1/realtime/client_secrets", False),
        ("/v1/realtime/sessions", False),
        ("/v1alpha/auth_tokens", False),
        ("/oauth/token?x=1", False),
        ("/v1/messages/count_tokens", True),
        ("/v1beta/models/g:countTokens", True),
        ("/v1/sessions/1/run", True),
    ],
)
def test_answer_that_is_a_key_is_not_recorded(tmp_path: Path, path: str, is_recorded: bool) -> None:
    with proxied(tmp_path, HEAD_OF_TEN, TEN) as proxy:
        assert ask(proxy.url, path) == (200, TEN)
    assert len(list(tmp_path.iterdir())) == is_recorded
    problem = "" if is_recorded else "not recorded: the response may contain a key"
    assert proxy.exchanges[0].problem == problem


def zipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


@pytest.mark.parametrize(
    ("encoding", "body", "expected"),
    [
        ("gzip", zipped(b"one ") + zipped(b"two"), b"one two"),
        ("gzip", zipped(b"one") + bytes(9), b"one"),
        ("deflate", zlib.compress(b"one two"), b"one two"),
        ("deflate", zlib.compress(b"one two")[2:-4], b"one two"),
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_compressed_answer_is_recorded_unpacked(
    tmp_path: Path, encoding: str, body: bytes, expected: bytes, size: int
) -> None:
    head = HEAD_IN_CHUNKS.replace(b"Set-Cookie: c=1", f"Content-Encoding: {encoding}".encode())
    with proxied(tmp_path, head, *in_chunks(*cut(body, [size])), LAST_CHUNK) as proxy:
        assert ask(proxy.url) == (200, body)
    (recording,) = recordings(tmp_path)
    assert (recording.data, recording.ending) == (expected, "orderly")
    assert proxy.exchanges[0].problem == ""


CUT_SHORT = "incomplete: the compressed response is truncated"


@pytest.mark.parametrize(
    ("encoding", "body", "problem"),
    [
        ("br", b"abc", "not recorded: the response is compressed with br"),
        ("gzip", b"abc", "incomplete: the response does not match its content-encoding"),
        ("gzip", zipped(b"data: hello\n\n")[:-10], CUT_SHORT),
        ("gzip", zipped(b"one") + zipped(b"two")[:12], CUT_SHORT),
    ],
)
def test_answer_that_cannot_be_unpacked_is_still_forwarded(
    tmp_path: Path, encoding: str, body: bytes, problem: str
) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}"
    with proxied(tmp_path, head.encode(), b"\r\n\r\n", body) as proxy:
        assert ask(proxy.url) == (200, body)
    endings = [recording.ending for recording in recordings(tmp_path)]
    assert endings == ([] if encoding == "br" else ["cut"])
    assert problem in proxy.exchanges[0].problem


@pytest.mark.parametrize("filler", [b" ", b"\0"])  # the second is six bytes in JSON
def test_compressed_answer_is_not_recorded_without_a_bound(tmp_path: Path, filler: bytes) -> None:
    body = zipped(filler * 40_000_000)
    head = HEAD_IN_CHUNKS.replace(b"Set-Cookie: c=1", b"Content-Encoding: gzip")
    with proxied(tmp_path, head, *in_chunks(body[:5000], body[5000:]), LAST_CHUNK) as proxy:
        assert ask(proxy.url) == (200, body)
    (recording,) = recordings(tmp_path)
    assert recording.end[1:3] == ("cut", "the compressed response unpacks to too much data")
    assert 0 < len(recording.data) < next(tmp_path.iterdir()).stat().st_size < 30_000_000
    assert max(len(chunk.data) for chunk in recording.chunks) <= 1024 * 1024
    assert "unpacks to too much data" in proxy.exchanges[0].problem


def test_method_path_headers_and_body_are_forwarded(tmp_path: Path) -> None:
    received: list[bytes] = []
    empty = b"HTTP/1.1 204 No Content\r\nX-Mine: 1\r\n\r\n"
    with proxied(tmp_path, empty, received=received, base="/base/") as proxy:
        headers = {"X-Custom": "é", "Connection": "Upgrade, x-hop, HTTP2-Settings", "X-Hop": "1"}
        headers |= {"Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"}
        with asking(proxy.url, "/a%20b/c?x=1&x=2", "PATCH", **headers) as response:
            assert (response.status, response.getheader("x-mine")) == (204, "1")
            assert response.read() == b""
    head = received[0].decode().lower()
    assert head.startswith("patch /base/a%20b/c?x=1&x=2 http/1.1\r\n")
    assert f"host: {proxy.upstream.netloc}\r\n" in head
    assert "x-custom: é\r\n" in head
    assert "accept-encoding: identity\r\n" in head
    assert not any(name in head for name in ("x-hop", "http2", "upgrade"))
    for method, host in (("QUERY", "localhost"), ("PROPFIND", "[::1]"), ("OPTIONS", "LOCALHOST")):
        page = {"Host": f"{host}:80", "Origin": f"http://{host}:3000"}  # a page of this machine
        with (
            proxied(tmp_path, HEAD_OF_TEN, TEN, received=received) as proxy,
            asking(proxy.url, "/v1/x", method, **page) as response,
        ):
            assert response.read() == TEN
        assert received[-1].startswith(f"{method} /v1/x ".encode())


def test_repeated_headers_and_an_awaited_body_are_forwarded(tmp_path: Path) -> None:
    received: list[bytes] = []
    head = HEAD_OF_TEN.replace(b"\r\n\r\n", b"\r\nX-B: 1\r\nX-B: 2\r\n\r\n")
    with proxied(tmp_path, head, TEN, received=received) as proxy, connected(proxy) as client:
        client.sendall(POST + b"X-A: 1\r\nX-A: 2\r\nContent-Length: 2\r\nConnection: close\r\n")
        client.sendall(b"Expect: 100-continue\r\n\r\n")
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"{}")
        answer = b"".join(iter(lambda: client.recv(1000), b""))
    assert b"\r\nX-B: 1\r\nX-B: 2\r\n" in answer
    assert b"\r\nX-A: 1\r\nX-A: 2\r\n" in received[0]
    assert b"expect" not in received[0].lower()


def test_chunked_and_several_requests_on_one_connection_are_forwarded(tmp_path: Path) -> None:
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    with (
        MockProvider(Reply(Say("hello"))) as provider,
        RecordingProxy(provider.url, tmp_path) as proxy,
        httpx2.Client(limits=httpx2.Limits(max_connections=1), headers=headers) as client,
    ):
        url = f"{proxy.url}/v1/chat/completions"
        for streamed in (False, True, False):
            assert client.post(url, json={**CHAT, "stream": streamed}).status_code == 200
        assert len(recordings(tmp_path)) == 3
        body = json.dumps(CHAT).encode()
        chunked = client.post(url, content=iter([body[:9], body[9:]]))
    assert chunked.status_code == 411  # the mock provider has parsed it, and requires a length


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        (b"GET http://x.example/ HTTP/1.1\r\nHost: localhost", 400, b"not a forward proxy"),
        (b"CONNECT x.example:443 HTTP/1.1\r\nHost: localhost", 400, b"not a forward proxy"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: WebSocket", 501, b"support websockets"),
        (b"GET / HTTP/1.0\r\nHost: localhost", 505, b"needs http/1.1"),
        (POST + b"Content-Length: x", 400, b"content-length"),
        (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked", 400, b"content-length"),
        (b"GET / HTTP/1.1", 400, b"missing 'host'"),
        (b"GET / HTTP/1.1\r\nHost: evil.com", 403, b"the host must be"),
        (b"GET / HTTP/1.1\r\nHost: localhost.evil.com:80", 403, b"the host must be"),
        (POST + b"Origin: http://evil.com", 403, b"from a web page"),
        (POST + b"Origin: null", 403, b"from a web page"),
        (POST + b"Origin: http://localhost\r\nOrigin: http://evil.com", 403, b"from a web page"),
        (
            b"GET / HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site",
            403,
            b"from a web page",
        ),
        (POST + b"Origin: http://localhost@evil.com", 403, b"from a web page"),
    ],
)
def test_unsupported_request_is_refused(
    tmp_path: Path,
    request_: bytes,
    status: int,
    message: bytes,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with RecordingProxy("http://127.0.0.1:1", tmp_path) as proxy, connected(proxy) as client:
        client.sendall(request_ + b"\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(1000), b""))
    assert answer.split()[1] == b"%d" % status
    assert message in answer.lower()
    assert proxy.exchanges == []
    assert capfd.readouterr().err == ""


def test_unreachable_provider_is_a_502_with_the_reason(tmp_path: Path) -> None:
    import anthropic

    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with RecordingProxy(url, tmp_path) as proxy, anthropic_client(proxy.url) as client:
        with pytest.raises(
            anthropic.InternalServerError, match=f"502.*cannot reach {url}: Connection refused"
        ):
            client.messages.create(**ANTHROPIC)
        for _ in range(2):  # also for a client that sends much
            assert httpx2.post(f"{proxy.url}/v1", content=b"x" * 500_000).status_code == 502
    assert list(tmp_path.iterdir()) == []
    assert proxy.exchanges[0].status == 502
    assert "cannot reach" in proxy.exchanges[0].problem
    with proxied(tmp_path) as proxy:
        status, body = ask(proxy.url, f"/v1/x?key={KEY}")
    assert status == 502
    assert b"sent no response (ServerDisconnectedError)" in body
    assert KEY.encode() not in body


def test_failing_disk_does_not_hold_back_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "recordings"
    with mocked(directory, Reply(Say("hello"))) as url, openai_client(url) as gpt:
        directory.rmdir()
        assert gpt.responses.create(**RESPONSES).output_text == "hello"

    def fails_after_the_header(*_: object) -> int:
        readable, writable = os.pipe()

        def read_line() -> None:
            with os.fdopen(readable) as reader:
                reader.readline()
            broken.set()

        threading.Thread(target=read_line).start()
        return writable

    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD_IN_CHUNKS)
        assert broken.wait(10)
        connection.sendall(b"5\r\nhello\r\n0\r\n\r\n")

    broken = threading.Event()
    monkeypatch.setattr(os, "open", fails_after_the_header)
    with proxied(tmp_path, answer=answer) as proxy:
        assert ask(proxy.url) == (200, b"hello")
    assert proxy.exchanges[0].problem == "the recording is incomplete: Broken pipe"


def test_answer_that_precedes_the_end_of_the_request_is_forwarded(tmp_path: Path) -> None:
    """Providers refuse a request that is too long in this way."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 413 Too Long\r\nContent-Length: 2\r\n\r\nno")
        connection.settimeout(0.5)
        with suppress(OSError):
            while connection.recv(65536):
                pass

    with proxied(tmp_path, answer=answer) as proxy:
        response = httpx2.post(f"{proxy.url}/v1", content=b"x" * 200_000)
    assert (response.status_code, response.content) == (413, b"no")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("api.anthropic.com", "must be an http or https URL"),
        ("ftp://x.example", "must be an http or https URL"),
        ("https://", "must be an http or https URL"),
        ("http://x.example:port", "not a valid URL"),
        ("http://api..example.com", "invalid host name"),
        (f"http://{'a' * 64}.example.com", "invalid host name"),
        ("http://api example.com", "invalid host name"),
        ("http://x.example/a b", "invalid host name or path"),
        (f"https://me:{KEY}@x.example", "must not contain a key"),
        (f"https://x.example/?key={KEY}", "must not contain a key"),
    ],
)
def test_invalid_provider_url_is_refused(tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        RecordingProxy(url, tmp_path)
    assert KEY not in str(caught.value)


def test_file_instead_of_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="Pass a directory"):
        RecordingProxy("http://x.example", tmp_path / "file").start()


def test_file_numbers_continue_after_the_existing_files(tmp_path: Path) -> None:
    for name in ("0041-messages.rec", "0042-x.rec"):
        (tmp_path / name).touch()
    with proxied(tmp_path, HEAD_OF_TEN, TEN) as proxy:
        ask(proxy.url, "/")
    assert proxy.exchanges[0].file == tmp_path / "0043-response.rec"


BASIC = "Basic dXNlcjpvcGVuIHNlc2FtZQ=="
BASIC_KEY = "Basic c2stYW50LUNBTkFSWTAxMjM0NTY3ODk6"
SIGNED = "AWS4-HMAC-SHA256 Credential=AKIA0123/x, SignedHeaders=content-type;host, Signature="


@pytest.mark.parametrize(
    ("path", "headers", "secret"),
    [
        ("/v1/messages", {"x-api-key": KEY}, KEY),
        ("/v1/chat/completions", {"authorization": f"Bearer {KEY}"}, KEY),
        ("/openai/deployments/x", {"api-key": KEY}, KEY),
        ("/v1beta/models/g:streamGenerateContent", {"X-Goog-Api-Key": KEY}, KEY),
        (f"/v1beta/models/g:streamGenerateContent?alt=sse&key={KEY}", {}, KEY),
        (f"/v1?%6bey={KEY}", {}, KEY),
        ("/v1?api_key=a%2Fbcdefgh", {}, "a/bcdefgh"),
        ("/v1?api_key=a%2Fbcdefgh", {}, "a%2Fbcdefgh"),
        ("/v1", {"cookie": f"a=b; session={KEY}", "user-agent": f"agent/{KEY}"}, KEY),
        (f"/path/{KEY}/x", {"x-api-key": KEY}, KEY),
        ("/v1", {"content-type": f"a/b; token={KEY}"}, KEY),
        ("/v1", {"x-acme-pat": KEY}, KEY),
        ("/v1", {"x-access": "Bearer open-sesame"}, "open-sesame"),
        ("/v1", {"authorization": BASIC}, "open sesame"),
        ("/v1", {"authorization": BASIC}, "dXNlcjpvcGVuIHNlc2FtZQ=="),
        ("/v1", {"authorization": BASIC_KEY}, "sk-ant-CANARY0123456789"),
        ("/v1", {"x-api-key": "abc.DEFGHIJ=xyz"}, "abc.DEFGHIJ=xyz"),
        ("/v1", {"x-api-key": "abcdef,ghijkl;mnopqr"}, "abcdef,ghijkl;mnopqr"),
        ("/v1", {"authorization": "Bearer abcdef,ghijkl"}, "abcdef,ghijkl"),
        ("/v1", {"authorization": f"{SIGNED}0123456789abcdef"}, "0123456789abcdef"),
    ],
)
def test_key_of_a_request_is_never_written(
    tmp_path: Path, path: str, headers: dict[str, str], secret: str
) -> None:
    exchanges: list[Exchange] = []
    with proxied(
        tmp_path,
        b"HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n",
        f"Set-Cookie: k={secret}\r\nX-Request-Id: {secret}\r\n\r\n".encode(),
        *in_chunks(b'{"key"' + secret[:5].encode(), secret[5:].encode() + b"}"),
        LAST_CHUNK,
        on_exchange=exchanges.append,
        with_request=True,
    ) as proxy:
        _, body = ask(proxy.url, path, **headers)
    assert secret.encode() in body  # the client gets what the provider sends
    (file,) = tmp_path.iterdir()
    for text in (file.read_text(), file.name, repr(exchanges)):
        assert secret not in text
        assert "CANARY" not in text
    recording = read_recording(file)
    assert recording.data == b'{"key"[removed]}'
    assert response_of(recording).headers == {"x-request-id": "[removed]"}


@pytest.mark.parametrize("with_request", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        {"mcp_servers": [{"url": "https://m", "authorization_token": KEY}]},
        {"tools": [{"type": "mcp", "headers": {"Authorization": f"Bearer {KEY}"}}]},
        {"tools": [{"type": "mcp", "authorization": KEY}]},
        {"tools": [{"headers": {"X-Mine": KEY}}]},
        {"data_sources": [{"parameters": {"authentication": {"type": "api_key", "key": KEY}}}]},
        {"config": {"clientSecret": KEY}},
    ],
)
def test_key_in_a_request_body_is_never_written(
    tmp_path: Path, body: dict[str, Any], with_request: bool
) -> None:
    echo = json.dumps({"error": f"bad token {KEY}"}).encode()
    head = f"HTTP/1.1 400 Bad\r\nContent-Length: {len(echo)}\r\n\r\n".encode()
    with proxied(tmp_path, head, echo, with_request=with_request) as proxy:
        answer = httpx2.post(f"{proxy.url}/v1/messages", json={**body, "model": "m"})
    assert KEY in answer.text
    assert proxy.exchanges[0].removed == 1
    (file,) = tmp_path.iterdir()
    assert "CANARY" not in file.read_text()
    request = request_of(read_recording(file))
    assert json.loads(request.body or '{"model": "m"}')["model"] == "m"
    assert (request.body is not None) == with_request


def test_ordinary_words_of_a_request_are_kept_in_the_answer(tmp_path: Path) -> None:
    schema = {"type": "string", "description": "The password, at least 16 characters, as text"}
    body = {
        "max_tokens": 4096,
        "tools": [{"input_schema": {"properties": {"password": schema, "api_key": schema}}}],
        "messages": [{"role": "user", "content": f"my token is {KEY}"}],
        "input": {"key": "the-customer-1234567890"},
        "headers": {"Content-Type": "application/json"},
    }
    echo = json.dumps(body).encode() + b" gemini-2.5-pro content-type;host"
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(echo)}\r\n\r\n".encode()
    headers = {"authorization": f"{SIGNED}1"}
    with proxied(tmp_path, head, echo) as proxy:
        httpx2.post(f"{proxy.url}/v1?model=gemini-2.5-pro&alt=sse", json=body, headers=headers)
    assert recordings(tmp_path)[0].data == echo


def test_only_harmless_headers_and_parts_of_the_url_are_written(tmp_path: Path) -> None:
    key = "sk-CANARY0123456789abcdefXYZ"  # in a path, where no key is expected
    headers = {"user-agent": f"me/{KEY}", "x-unheard-of": "x", "authorization": f"Bearer {KEY}"}
    path = f"/us.anthropic.claude-3-5-sonnet-20241022-v2:0/{key}/m?key=short&alt=sse&short"
    with proxied(tmp_path, HEAD_OF_TEN, TEN) as proxy:
        ask(proxy.url, f"{path}&api-version=1", **headers)
    (file,) = tmp_path.iterdir()
    assert "CANARY" not in file.name + file.read_text() + repr(proxy.exchanges)
    request = request_of(read_recording(file))
    assert request.headers == {"user-agent": "me/[removed]"}
    assert request.url.endswith("-20241022-v2:0/[removed]/m?alt=sse&api-version=1")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_certificate_of_an_https_provider_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def serve() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            try:
                with context.wrap_socket(connection, server_side=True) as secure:
                    secure.recv(65536)
                    secure.sendall(HEAD_IN_CHUNKS + b"5\r\nhello\r\n0\r\n\r\n")
            except ssl.SSLError:
                connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        url = f"https://localhost:{listener.getsockname()[1]}"
        with RecordingProxy(url, tmp_path / "untrusted") as proxy:
            status, body = ask(proxy.url)
            assert status == 502
            assert b"cannot reach https://localhost" in body
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with RecordingProxy(url, tmp_path / "trusted") as proxy:
            assert ask(proxy.url) == (200, b"hello")
        thread.join(10)
    (recording,) = recordings(tmp_path / "trusted")
    assert recording.data == b"hello"
    assert request_of(recording).url == f"{url}/v1/x"
