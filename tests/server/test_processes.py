"""Several processes share one store: follow, decide and stop in any of them; one may be killed."""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
import uvicorn

from argstream.events import Event, RunResumed, RunSnapshot, TextSnapshot
from tests.agent.following import only
from tests.cli.processes import ENVIRONMENT, Process
from tests.runs.redis_server import RedisServer
from tests.server.program import WORDS, main
from tests.server.raw import connect
from tests.server.talking import Client, content, eventually, folded

GOODBYE = ["retry: 1000", ": the server is shutting down; reconnect", ""]


class Server(Client):
    def __init__(self, process: Process, http: httpx.Client) -> None:
        super().__init__(http)
        self.process = process


@contextmanager
def processes(store: str, effects: Path, count: int = 2) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        servers = []
        for _ in range(count):
            process = stack.enter_context(Process(main, store, str(effects)))
            url = process.stdout.readline().decode().strip()
            assert url, "the server does not start"
            http = stack.enter_context(httpx.Client(base_url=url, timeout=20))
            servers.append(Server(process, http))
        yield servers


@pytest.fixture(params=["redis", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "runs.db")
        return
    with RedisServer() as server:
        yield server.url


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    file = tmp_path / "effects"
    file.touch()
    return file


class Followed:
    def __init__(self, client: Client, run_id: str) -> None:
        self.seen: list[Event | RunSnapshot] = []
        self._thread = threading.Thread(target=self._follow, args=(client, run_id), daemon=True)
        self._thread.start()

    def _follow(self, client: Client, run_id: str) -> None:
        for frame in client.frames(run_id):
            self.seen.append(content(frame))

    def events(self) -> list[Event | RunSnapshot]:
        self._thread.join(30)
        assert not self._thread.is_alive(), "the run does not end"
        return self.seen


def test_two_processes_behave_as_one_until_one_is_killed(store: str, effects: Path) -> None:
    with processes(store, effects) as (one, other):
        run_id = one.start()
        here, there = Followed(one, run_id), Followed(other, run_id)
        [request] = one.until(run_id, "paused")["pending"]
        decision = {request["call_id"]: {"decision": "approve", "digest": request["digest"]}}
        path = f"/api/runs/{run_id}/decisions"
        answers = [client.post(path, {"decisions": decision}) for client in (other, one, other)]
        assert [answer.status_code for answer in answers] == [202, 403, 403]
        assert folded(here.events()) == folded(there.events())
        assert folded(here.events()).status == "completed"
        assert effects.read_text() == "ada\n"
        stopped = one.start()
        other.stop(stopped)
        one.until(stopped, "stopped")

        left = one.start()
        there = Followed(other, left)
        eventually(lambda: len(there.seen) > 5)
        one.process.kill()
        other.until(left, "paused")
        other.approve(left)
        events = there.events()
        assert only(events, RunResumed)[0].cause == "crash"
        assert folded(events) == folded(other.events(left))
        assert effects.read_text() == "ada\nada\n"
        texts = [block for block in folded(events).blocks if isinstance(block, TextSnapshot)]
        assert texts[0].is_lost
        assert WORDS.startswith(texts[0].text[:20])
        assert "\n".join(text.text for text in texts).endswith(f"sent to ada {WORDS}")


def test_server_that_ends_in_order_releases_its_runs(store: str, effects: Path) -> None:
    with processes(store, effects) as (one, other):
        run_id = one.start()
        with one.http.stream("GET", f"/api/runs/{run_id}/events") as answer:
            lines = answer.iter_lines()
            seen = [next(lines) for _ in range(6)]
            one.process.send_signal(signal.SIGTERM if store.startswith("redis") else signal.SIGINT)
            rest = list(lines)  # the response is complete
        assert rest[-3:] == GOODBYE
        assert one.process.wait(20) == 0
        last = [line[4:] for line in (*seen, *rest) if line.startswith("id: ")][-1]
        other.until(run_id, "paused")
        other.decide(run_id, decision="deny")
        frames = list(other.frames(run_id, **{"Last-Event-ID": last}))
        assert frames[0].seq > int(last)
        assert folded(content(frame) for frame in frames).status == "completed"


def test_second_signal_ends_the_server_at_once(effects: Path) -> None:
    with processes(str(effects.with_name("runs.db")), effects, 1) as [server]:
        run_id = server.start()
        with connect(server.http.base_url.port or 0) as slow:
            slow.sendall(
                b"POST /api/runs HTTP/1.1\r\nhost: localhost\r\n"
                b"content-type: application/json\r\ncontent-length: 50\r\n\r\n"
            )
            with server.http.stream("GET", f"/api/runs/{run_id}/events") as answer:
                lines = answer.iter_lines()
                next(lines)
                server.process.send_signal(signal.SIGTERM)
                assert GOODBYE[1] in list(lines)
            server.process.send_signal(signal.SIGTERM)  # while the server waits for the body
            assert server.process.wait(timeout=20) == -signal.SIGTERM


@pytest.mark.parametrize("app", ["alone", "mounted"])
def test_server_under_plain_uvicorn_ends_in_order(app: str, tmp_path: Path) -> None:
    environment = ENVIRONMENT | {"STORE": str(tmp_path / "runs.db")}
    run = partial(uvicorn.run, port=0)
    with Process(run, f"tests.server.uvicorn_apps:{app}", env=environment) as process:
        line = next(line for line in process.stderr if b"running on" in line)
        [url] = re.findall(r"http://[\d.:]+", line.decode())
        with httpx.Client(base_url=url, timeout=20) as http:
            run_id = Client(http).start()
            with http.stream("GET", f"/api/runs/{run_id}/events") as answer:
                lines = answer.iter_lines()
                next(lines)
                process.send_signal(signal.SIGTERM)
                assert list(lines)[-3:] == GOODBYE
        # uvicorn raises the signal again after it has ended in order.
        assert process.wait() in (0, -signal.SIGTERM)
