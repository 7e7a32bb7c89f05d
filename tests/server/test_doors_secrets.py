"""What gets out: no secret into a log, no trace into an answer, no line into a head."""

import json
import logging
import re
import time
from collections.abc import Iterator

import pytest

from argstream.server._tokens import token_cookie
from argstream.server.doors import Doors
from tests.server.stand_in import Answer, ask, call, serving

TOKEN = "canary-token-0001"
WRONG = "canary-wrong-0002"
QUERY = "canary-query-0003"
CODED = "canary%2Dquery-%30004"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as (_, port):
        yield port


def test_no_secret_gets_into_a_log_or_an_answer_even_if_an_error_quotes_it(
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(1)  # everything that anybody logs, also uvicorn and asyncio
    cookie = token_cookie(TOKEN).partition(";")[0]
    answers: list[Answer] = []
    with serving(Doors(token=TOKEN)) as (_, port):
        monkeypatch.setattr(logging.getLogger("uvicorn.access"), "handlers", [caplog.handler])
        for path in ("/fails", "/runs/one", "/no/such"):
            path_with_query = f"{path}?access_token={QUERY}&x={QUERY}%20more&{CODED}&y={CODED}"
            answers += [
                call(port, path=path_with_query, **headers)
                for headers in (
                    {"authorization": f"Bearer {TOKEN}"},
                    {"authorization": f"Bearer {WRONG}"},
                    {"cookie": cookie},
                    {"cookie": cookie, "origin": f"http://127.0.0.1:{port}"},
                    {"host": f"{WRONG}.example"},
                )
            ]
        body = {"approve": WRONG}
        answers.append(call(port, "POST", "/decisions", body, authorization=f"Bearer {TOKEN}"))
    assert {answer.status for answer in answers} == {200, 401, 403, 404, 422, 500}
    assert "ValueError: failed with" in caplog.text
    shown = caplog.text + "".join(capfd.readouterr()) + str(answers)
    for secret in (TOKEN, WRONG, QUERY, CODED, "canary-query-0004", cookie.partition("=")[2]):
        assert secret not in shown


def test_no_trace_gets_into_an_answer(port: int, caplog: pytest.LogCaptureFixture) -> None:
    failed = call(port, path="/fails")
    assert (failed.status, failed.problem) == (500, "internal-error")
    for word in (b"Traceback", b"ValueError", b"stand_in", b".py"):
        assert word not in failed.body
    assert "Traceback" in caplog.text
    assert {record.name for record in caplog.records} == {"argstream.server"}


def test_a_store_that_fails_is_a_line_in_the_log_and_fixed_words_for_clients(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    failed = call(port, path=f"/store-fails?{QUERY}")
    assert (failed.status, failed.problem) == (503, "store-failure")
    assert failed.detail == "the store does not work just now: come again later"
    assert "canary" not in failed.body.decode()
    [line] = caplog.messages
    assert line.endswith("503 store-failure: cannot write to /srv/canary.db at [removed]")


def test_each_request_is_a_line_for_who_wants_to_see_them(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    call(port, path=f"/runs/one?{QUERY}")
    assert not caplog.messages
    caplog.set_level(logging.DEBUG, "argstream.server")
    call(port, path=f"/runs/one?{QUERY}")
    call(port, path="/no%0a/such")
    while len(caplog.messages) < 2:
        time.sleep(0.01)
    one, other = caplog.messages
    assert re.fullmatch(r"GET '/runs/one': 200 in \d+ ms", one)
    assert re.fullmatch(r"GET '/no\\n/such': 404 in \d+ ms", other)


@pytest.mark.parametrize(
    "line", ["%0d%0aset-cookie:%20a=b", "%0aevil", "%00", "%e2%80%a8", "\u0085"]
)
def test_ids_cannot_add_a_header_nor_a_line_of_the_log(
    port: int, caplog: pytest.LogCaptureFixture, line: str
) -> None:
    paths = ("/runs/", "/splits?run=", "/no/")
    answers = [call(port, path=f"{path}{line}") for path in paths]
    for answer in answers:
        assert "set-cookie" not in answer.headers
        assert answer.status in (200, 400, 404, 500)
    assert not any(text.startswith(("evil", "set-cookie")) for text in caplog.text.splitlines())


@pytest.mark.parametrize("byte", [b"\r", b"\n", b"\0", b"\r\n\r\nGET /fails HTTP/1.1\r\nx: "])
def test_a_last_event_id_ends_at_its_line(port: int, byte: bytes) -> None:
    head = b"GET /runs/one HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nlast-event-id: 3"
    answer = ask(port, head + byte + b"4\r\n\r\n")
    assert answer.status == 400 or json.loads(answer.body)["after"] in ("3", "34")
