"""``argstream serve``, run as a user runs it: a real process, a real port, real clients."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import httpx
import pytest

from argstream.server import AgentServer
from argstream.testing import CallTool, MockProvider, Reply, Status
from tests.cli.in_process import argstream
from tests.cli.test_cli import COMMAND, ENVIRONMENT
from tests.server.talking import agent_for, routes_of
from tests.support import program_is_missing
from tests.support.provider_rules import strict_provider

QUIET = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("ARGSTREAM_")}
CALLS = ("tool_start", "block")
TOKEN = "canary-token-1234567890"
MODEL = ("--model", "anthropic:claude-any")


class Running:
    """The command, and what it has said so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        output: IO[str] = process.stdout
        self.greeting = ""
        while "/decisions" not in self.greeting:
            line = output.readline()
            assert line, "it has ended: " + (process.stderr.read() if process.stderr else "")
            self.greeting += line
        self.url = self.greeting.split()[2]
        """The address, without a token."""
        link = re.search(r"Open (\S+)", self.greeting)
        self.link = link[1] if link else ""
        """What is to be opened in a browser."""
        token = re.search(r"'authorization: Bearer (\S+)'", self.greeting)
        self.token = token[1] if token else ""
        """The token that the command made; "" if it made none."""

    @property
    def _bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers=self._bearer | headers, timeout=20)

    def post(self, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        headers = self._bearer | headers
        return httpx.post(f"{self.url}{path}", json=body, headers=headers, timeout=20)

    def converse(self, message: str, conversation: str = "c") -> list[dict[str, Any]]:
        answer = self.post("/api/converse", {"message": message, "conversation": conversation})
        assert answer.status_code == 200, answer.text
        lines = answer.text.splitlines()
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        self.process.send_signal(number)
        output, errors = self.process.communicate(timeout=10)
        return self.process.returncode, output, errors


@contextmanager
def serve(folder: Path, *arguments: str, **environment: str) -> Iterator[Running]:
    with subprocess.Popen(
        [COMMAND, "serve", "--port", "0", "--pace", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            **QUIET,
            "TMPDIR": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            **environment,
        },
        cwd=folder,
        text=True,
    ) as process:
        try:
            yield Running(process)
        finally:
            process.kill()


def provided(provider: MockProvider) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": provider.anthropic_url, "ANTHROPIC_API_KEY": "sk-canary"}


class Frame(NamedTuple):
    at: float
    kind: str
    value: Any


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> list[Frame]:
    if shutil.which("curl") is None:
        program_is_missing("curl is not installed: it is what the server is looked at with")
    with serve(tmp_path_factory.mktemp("serve"), "--pace", "0.005") as running:
        (line,) = [line for line in running.greeting.splitlines() if "curl -N" in line]
        with subprocess.Popen(
            [*shlex.split(line), "-sS"], stdout=subprocess.PIPE, env=QUIET, text=True
        ) as curl:
            assert curl.stdout is not None
            return [
                Frame(time.monotonic(), *next(iter(json.loads(said[6:]).items())))
                for said in curl.stdout
                if said.startswith("data: ")
            ]


def test_the_printed_curl_command_shows_an_answer_live(frames: list[Frame]) -> None:
    kinds = [frame.kind for frame in frames]
    assert set(kinds) == {"text", "thinking", "tool_start", "block", "tool_result", "done"}
    told = [(frame.value["id"], frame.kind) for frame in frames if frame.kind in CALLS]
    ids = list(dict.fromkeys(id_ for id_, _ in told))
    assert len(ids) == 3
    assert sorted(told, key=lambda one: ids.index(one[0])) == [(i, k) for i in ids for k in CALLS]
    began = frames[0].at
    assert frames[-1].at - began > 0.8
    assert sum(frame.at - began < 0.5 for frame in frames) > 3
    starts, blocks = ([one for one in frames if one.kind == kind] for kind in CALLS)
    assert blocks[-1].at - starts[-1].at > 0.3, "the file takes its time to be written"
    assert kinds.index("done") == len(frames) - 1
    assert frames[-1].value["status"] == "paused"
    assert [request["name"] for request in frames[-1].value["pending"]] == ["write_file"]


class TestStarting:
    def test_it_says_where_it_is_and_what_can_be_asked(self, tmp_path: Path) -> None:
        with serve(tmp_path) as running:
            assert running.url.startswith("http://127.0.0.1:")
            first, *others = running.greeting.splitlines()
            assert first == f"Serving at {running.url} (press Ctrl-C to stop)."
            assert f"  Open {running.url}/#token={running.token}" in others
            assert any("curl -N" in line for line in others)
            assert "The model is a script that needs no API key." in running.greeting
            kept = "Runs are kept in argstream.db, the access token in argstream.db.token."
            assert kept in others
            assert httpx.get(f"{running.url}/healthz").json() == {"status": "ok"}
            words = running.greeting.split()
            paths = [path for path in words if path.startswith("/api/") and "ID" not in path]
            assert paths == ["/api/converse", "/api/chat", "/api/ag-ui", "/api/runs"]
            for path in paths:
                assert running.post(path, {}).status_code in (400, 422)

    def test_who_wants_no_page_is_not_told_of_one(self, tmp_path: Path) -> None:
        with serve(tmp_path, "--no-page") as running:
            assert "Open" not in running.greeting
            assert running.get("/static/argstream.js").status_code == 404

    def test_it_ends_in_order_and_leaves_nothing_but_its_store(self, tmp_path: Path) -> None:
        with serve(tmp_path) as running:
            running.converse("Hello")
            assert len(list(tmp_path.glob("argstream-serve-*"))) == 1
            assert running.end(signal.SIGINT) == (0, "", "")
        names = {path.name.partition("-")[0] for path in tmp_path.iterdir()}
        assert names == {"argstream.db", "argstream.db.token"}

    def test_who_watches_is_told_that_it_ends(self, tmp_path: Path) -> None:
        with (
            serve(tmp_path, "--pace", "0.05", "--no-token") as running,
            httpx.stream(
                "POST", f"{running.url}/api/converse", json={"message": "Hello"}, timeout=10
            ) as answer,
        ):
            lines = answer.iter_lines()
            next(lines)
            running.process.send_signal(signal.SIGTERM)
            assert "the server ends" in "".join(lines)
            assert running.process.wait(10) == 0

    def test_a_run_goes_on_when_the_server_was_started_anew(self, tmp_path: Path) -> None:
        with serve(tmp_path) as running:
            done = running.converse("Hello")[-1]["done"]
            running.end()
        (request,) = done["pending"]
        decision = {"decision": "deny", "digest": request["digest"], "reason": "not today"}
        with serve(tmp_path) as running:
            path = f"/api/runs/{done['run']}"
            answer = running.post(f"{path}/decisions", {"decisions": {request["id"]: decision}})
            assert answer.is_success, answer.text
            events = running.get(f"{path}/events").text
            assert "“not today”" in events.replace("\\u201c", "“").replace("\\u201d", "”")
            again = running.converse("And then?")
        assert "message 2" in "".join(frame.get("text", "") for frame in again)

    def test_a_token_is_needed_and_never_shown(self, tmp_path: Path) -> None:
        with serve(tmp_path, "--log-level", "debug", ARGSTREAM_TOKEN=TOKEN) as running:
            assert "Bearer $ARGSTREAM_TOKEN" in running.greeting
            assert f"Open {running.url} and sign in with the token\n" in running.greeting
            assert httpx.get(f"{running.url}/static/argstream.js").status_code == 200
            hello = {"message": "Hello"}
            assert running.post("/api/runs", hello).status_code == 401
            let_in = running.post("/api/runs", hello, authorization=f"Bearer {TOKEN}")
            assert let_in.status_code == 201
            status, output, errors = running.end()
        assert status == 0
        assert TOKEN not in running.greeting + output + errors
        assert not list(tmp_path.glob("*.token"))

    def test_what_it_starts_does_not_know_the_token_nor_the_keys(self, tmp_path: Path) -> None:
        call = CallTool("run_command", {"command": "env"})
        with strict_provider([Reply(call), Reply("Done.")]) as provider:
            environment = provided(provider) | {"ARGSTREAM_TOKEN": TOKEN}
            with serve(tmp_path, *MODEL, "--tools", "shell", **environment) as running:
                bearer = {"authorization": f"Bearer {TOKEN}"}
                asked = running.post("/api/converse", {"message": "Look."}, **bearer).text
                done = json.loads(asked.strip().rpartition("data: ")[2])["done"]
                (request,) = done["pending"]
                decision = {"decision": "approve", "digest": request["digest"]}
                path = f"/api/runs/{done['run']}"
                running.post(
                    f"{path}/decisions", {"decisions": {request["id"]: decision}}, **bearer
                )
                told = httpx.get(f"{running.url}{path}/events", headers=bearer, timeout=10).text
        assert "exit status 0" in told
        assert "PATH=" in told
        assert TOKEN not in told
        assert "sk-canary" not in told

    def test_its_store_is_not_among_the_files_of_the_folder(self, tmp_path: Path) -> None:
        names = ["argstream.db", "argstream.db-wal", "argstream.db.token"]
        calls = [CallTool("write_file", {"path": name, "content": ""}) for name in names]
        replies = [Reply(*calls, CallTool("list_files", {})), Reply("Done."), Reply("Still.")]
        with strict_provider(replies) as provider:
            environment = provided(provider) | {"TMPDIR": str(tmp_path.parent)}
            with serve(tmp_path, *MODEL, "--tools", "files", **environment) as running:
                frames = running.converse("Write.")
                results = [frame["tool_result"] for frame in frames if "tool_result" in frame]
                assert running.converse("And now?")[-1]["done"]["status"] == "completed"
        told = [result.get("error") or result["output"] for result in results]
        assert sorted(told) == [
            ". is empty",
            "argstream.db is kept from these tools: leave it alone",
            "argstream.db-wal is kept from these tools: leave it alone",
            "argstream.db.token is kept from these tools: leave it alone",
        ]

    def test_others_are_told_to_reach_it_by_which_names(self, tmp_path: Path) -> None:
        everywhere = ("--host", "0.0.0.0")
        with serve(tmp_path, *everywhere, ARGSTREAM_TOKEN=TOKEN) as running:
            port = running.url.rpartition(":")[2]
            told = f"Others can reach it on port {port}, by any name of this machine, if they know"
            assert told in running.greeting
        named = (*everywhere, "--allowed-host", "agent.example")
        with serve(tmp_path, *named, ARGSTREAM_TOKEN=TOKEN) as running:
            assert "as localhost, 127.0.0.1, ::1, agent.example, if they" in running.greeting

    def test_a_proxy_is_believed_that_was_named(self, tmp_path: Path) -> None:
        forwarded = {"x-forwarded-proto": "https", "origin": "https://agent.example"}
        hosts = ("--allowed-host", "agent.example")
        for proxies, status in ((), 403), (("--forwarded-from", "127.0.0.0/8"), 201):
            with serve(tmp_path, *hosts, *proxies) as running:
                answer = running.post(
                    "/api/runs", {"message": "Hello"}, host="agent.example", **forwarded
                )
                assert answer.status_code == status, answer.text

    def test_a_run_that_fails_is_told_in_one_line(self, tmp_path: Path) -> None:
        refusal = Status(401, "no such key: \x1b[31m\nWARNING: all is well")
        with (
            strict_provider(Reply(faults=[refusal])) as provider,
            serve(tmp_path, *MODEL, **provided(provider)) as running,
        ):
            run = running.converse("Hello")[-1]["done"]["run"]
            _, _, errors = running.end()
        (line,) = errors.splitlines()
        assert line.startswith(f"WARNING: run {run}: failed: ")
        assert "no such key: ⟦ESC⟧[31m" in line
        assert "sk-canary" not in line

    def test_claude_code_is_served(self, tmp_path: Path) -> None:
        with strict_provider([Reply("It is me.")]) as provider:
            environment = {
                **provided(provider),
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "HOME": str(tmp_path / "home"),
            }
            with serve(tmp_path, "--model", "claude-agent", **environment) as running:
                frames = running.converse("Who is it?")
        assert "".join(frame.get("text", "") for frame in frames) == "It is me."
        assert frames[-1]["done"]["status"] == "completed"


class Script:
    """A server whose model follows the script; what is said to it and what came of it."""

    def __init__(self, running: Running, folder: Path) -> None:
        self.running = running
        self._folder = folder

    def answer(self, message: str, conversation: str, **decision: object) -> tuple[Any, str]:
        """Return what needs approval, and all that is said before and after the decision."""
        frames = self.running.converse(message, conversation)
        done = frames[-1]["done"]
        (request,) = done["pending"]
        path = f"/api/runs/{done['run']}"
        answer = {"digest": request["digest"], **(decision or {"decision": "approve"})}
        decided = self.running.post(f"{path}/decisions", {"decisions": {request["id"]: answer}})
        assert decided.is_success, decided.text
        lines = self.running.get(f"{path}/events").text.splitlines()
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        said = "".join(frame.get("text", "") for frame in frames)
        return request["input"], said + json.dumps(events, ensure_ascii=False)

    def files(self) -> dict[str, str]:
        found = self._folder.glob("argstream-serve-*/*/*")
        return {path.name: path.read_text() for path in found}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Script]:
    folder = tmp_path_factory.mktemp("script")
    with serve(folder) as running:
        yield Script(running, folder)


class TestScript:
    """The script that is followed while no model is named."""

    def test_what_it_says_and_writes(self, script: Script) -> None:
        request, text = script.answer("Count {these} four words", "one")
        assert "I am no model but a script" in text
        assert "You wrote “Count {these} four words”" in text
        assert "4 words and 24 characters. 1,229 primes are below 10,000." in text
        assert request["path"] == "primes.py"
        assert 35 <= len(request["content"].splitlines()) <= 45
        assert "Thank you: created primes.py with 40 lines" in text
        assert script.files()["primes.py"] == request["content"]
        again, text = script.answer("And then?", "one")
        assert "Still a script, and this is message 2 of our conversation." in text
        assert again["path"] == "picnic.md"

    @pytest.mark.parametrize(
        ("decision", "told"),
        [
            ({"decision": "deny", "reason": "not today"}, "“not today”"),
            ({"decision": "deny"}, "You said no, so primes.py is not written, and I need no"),
            (
                {"decision": "approve", "arguments": {"path": "mine.txt", "content": "mine"}},
                "You changed it before you said yes",
            ),
            (
                {"decision": "approve", "arguments": {"path": "../../x.txt", "content": "mine"}},
                "That did not work: ../../x.txt leads out of the folder",
            ),
        ],
    )
    def test_every_decision_counts(
        self, script: Script, decision: dict[str, Any], told: str
    ) -> None:
        before = set(script.files())
        _, text = script.answer("Go", f"conversation-{told[:9]}", **decision)
        assert told in text
        assert set(script.files()) - before == ({"mine.txt"} if "changed" in told else set())

    def test_a_long_message_is_not_repeated(self, script: Script) -> None:
        _, text = script.answer("word " * 20_000, "book", decision="deny")
        assert "the words at its beginning" in text

    def test_the_program_that_it_writes_works(
        self, script: Script, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        request, _ = script.answer("Go", "program", decision="deny")
        monkeypatch.setattr("sys.argv", ["primes.py", "30"])
        code = compile(request["content"], "primes.py", "exec")
        exec(code, {"__name__": "__main__"})
        assert capsys.readouterr().out == " 2  3  5  7 11 13 17 19 23 29\n10 primes are below 30.\n"


class TestToken:
    """The token that the command makes when it is given none."""

    def test_every_api_route_refuses_requests_without_it(self, tmp_path: Path) -> None:
        """The scenario of another local user, who knows the port and nothing else."""
        agent, _ = agent_for("Hello.")
        routes = routes_of(AgentServer(agent, token=None))
        # Deliberately open. None of them reveals anything about runs.
        is_open = {
            ("GET", "/healthz"),
            ("GET", "/"),
            ("GET", "/static/{name:path}"),
            ("GET", "/api/session"),  # tells the page whether to ask for the token
            ("POST", "/api/session"),  # signs in
            ("DELETE", "/api/session"),  # signs out
        }
        assert is_open < set(routes)
        with serve(tmp_path) as running, httpx.Client(base_url=running.url) as other_user:
            run = running.post("/api/runs", {"message": "Hello"}).json()["run"]
            for method, path in routes:
                address = re.sub(r"\{\w+(:path)?\}", run, path)
                body = None if method == "GET" else {"message": "run id -un"}
                answer = other_user.request(method, address, json=body)
                if (method, path) in is_open:
                    assert answer.status_code in (200, 204, 404, 422), (method, path)
                    assert run not in answer.text.replace(address, "")
                    continue
                assert answer.status_code == 401, (method, path)
                assert answer.headers["www-authenticate"] == "Bearer"
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.json()["type"] == "urn:argstream:token-needed"
            wrong = {"authorization": "Bearer wrong-token-1234567"}
            assert other_user.get("/api/runs", headers=wrong).status_code == 401
            assert other_user.post("/api/runs", json={}, headers=wrong).status_code == 401
            listed = running.get("/api/runs").json()["runs"]
        assert [info["run"] for info in listed] == [run]

    def test_is_kept_in_a_file_for_the_owner_and_reused_after_a_restart(
        self, tmp_path: Path
    ) -> None:
        before = os.umask(0)
        try:
            with serve(tmp_path) as running:
                token = running.token
                session = running.post("/api/session", {"token": token}, origin=running.url)
        finally:
            os.umask(before)
        file = tmp_path / "argstream.db.token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text() == f"{token}\n"
        assert len(token) >= 32
        with serve(tmp_path) as running:
            assert running.token == token
            cookies = {"cookie": session.headers["set-cookie"].partition(";")[0]}
            still_in = httpx.get(f"{running.url}/api/runs", headers=cookies)
        assert still_in.status_code == 200

    @pytest.mark.parametrize("state_home", ["state/deep", ""])
    def test_is_in_the_state_folder_if_the_store_is_not_a_file(
        self, tmp_path: Path, state_home: str
    ) -> None:
        home = tmp_path / "home"
        home.mkdir()
        state = tmp_path / state_home if state_home else home / ".local" / "state"
        environment = {"HOME": str(home), "XDG_STATE_HOME": str(state) if state_home else ""}
        before = os.umask(0)
        try:
            with serve(tmp_path, "--store", "memory:", **environment) as running:
                token = running.token
        finally:
            os.umask(before)
        file = state / "argstream" / "server.token"
        assert file.read_text().strip() == token
        assert str(file) in running.greeting
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        for folder in (file.parent, state):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    def test_no_token_lets_anybody_in_and_says_so(self, tmp_path: Path) -> None:
        with serve(tmp_path, "--no-token") as running:
            assert (
                "No token is required: any local user or process that can reach the port can start "
                "runs and approve commands.\n"
            ) in running.greeting
            assert f"Open {running.url}\n" in running.greeting
            assert "authorization" not in running.greeting
            assert httpx.get(f"{running.url}/api/runs").status_code == 200
        assert not list(tmp_path.glob("*.token"))

    def test_a_token_that_was_made_keeps_the_host_check(self, tmp_path: Path) -> None:
        with serve(tmp_path) as running:
            rebound = running.get("/api/runs", host="evil.example")
        assert rebound.json()["type"] == "urn:argstream:wrong-host"


class TestWrongUse:
    @pytest.fixture(autouse=True)
    def _elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        for name in ("MODEL", "STORE", "TOKEN"):
            monkeypatch.delenv(f"ARGSTREAM_{name}", raising=False)

    def refused(self, *arguments: str, **variables: str) -> str:
        """Start it, be refused, and return the message. No refusal leaves a file behind."""
        before = sorted(Path.cwd().rglob("*"))
        done = argstream("serve", "--port", "0", *arguments, stdin=b"", **variables)
        assert (done.returncode, done.stdout) == (2, b"")
        assert sorted(Path.cwd().rglob("*")) == before
        errors = done.stderr.decode()
        assert errors.startswith("argstream: ")
        assert errors.count("\n") == 1
        return errors

    def test_a_port_that_is_taken(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = str(listener.getsockname()[1])
            assert f"port {port} of '127.0.0.1' is taken" in self.refused("--port", port)

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
    def test_others_may_not_reach_it_without_a_token(self, host: str) -> None:
        for arguments in (["--host", host], ["--host", host, "--no-token"]):
            told = self.refused(*arguments)
            assert "is reachable from other machines: set a token (ARGSTREAM_TOKEN" in told

    def test_no_token_cannot_be_combined_with_a_token(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told = self.refused("--no-token", "--token", TOKEN)
        assert "--no-token cannot be combined with --token" in told
        monkeypatch.setenv("ARGSTREAM_TOKEN", TOKEN)
        assert "--no-token cannot be combined with ARGSTREAM_TOKEN" in self.refused("--no-token")

    def test_a_token_that_no_header_can_hold(self) -> None:
        told = self.refused("--token", f"{TOKEN} and more")
        assert "visible ASCII characters" in told
        assert TOKEN not in told

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["--model", "nobody:knows"], "nobody"),
            (["--model", "groq:any"], "GROQ_API_KEY"),
            (["--model", "anthropic:claude-any", "--tools", "rocket"], "not rocket"),
            (["--model", "anthropic:claude-any", "--policy", "no.toml"], "no.toml"),
            (["--policy", "no.toml"], "no.toml"),
            (["--store", "nowhere/runs.db"], "nowhere/runs.db"),
            (["--tools", "files"], "--tools means nothing for --model script"),
            (["--model", "claude-agent", "--policy", "p.toml"], "means nothing for --model claude"),
            (["--tools", "files", "--folder", "x"], "--tools and --folder mean nothing"),
            (["--forwarded-from", "proxy"], "--forwarded-from is an address such as"),
            (["--model", "claude-agent", "--folder", "nowhere"], "--folder nowhere is no folder"),
            (["--store", "http://user:sk-canary@x"], "this is the address of no store"),
            (["--origin", "not an origin"], "not an origin"),
        ],
    )
    def test_what_cannot_be_served_is_explained(
        self,
        monkeypatch: pytest.MonkeyPatch,
        arguments: list[str],
        told: str,
    ) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-canary")
        monkeypatch.delenv("GROQ_API_KEY", raising=False)
        said = self.refused(*arguments)
        assert told in said
        assert "sk-canary" not in said

    @pytest.mark.parametrize("mode", [0o644, 0o660, 0o602])
    def test_a_token_file_that_others_can_open(self, mode: int) -> None:
        file = Path("argstream.db.token")
        file.write_text(TOKEN)
        file.chmod(mode)
        told = self.refused()
        assert f"'argstream.db.token' is open to other users (mode {mode:04o})" in told
        assert "Delete it to get a new one, or set ARGSTREAM_TOKEN" in told
        assert TOKEN not in told

    def test_a_token_file_that_is_a_link_or_a_folder_or_empty(self) -> None:
        file = Path("argstream.db.token")
        file.symlink_to("elsewhere")
        assert "cannot read the token file 'argstream.db.token'" in self.refused()
        file.unlink()
        file.mkdir(mode=0o700)
        assert "cannot read the token file 'argstream.db.token'" in self.refused()
        file.rmdir()
        file.touch(0o600)
        assert "holds no token. Delete it" in self.refused()

    def test_a_token_file_of_another_user_or_a_named_pipe(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = Path("argstream.db.token")
        os.mkfifo(file, 0o600)
        assert "holds no token" in self.refused()  # without waiting for a writer
        file.unlink()
        file.write_text(TOKEN)
        file.chmod(0o600)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert "belongs to another user" in self.refused()

    def test_a_token_file_that_cannot_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        memory = ("--store", "memory:")

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        (tmp_path / "argstream").mkdir()
        monkeypatch.setattr(os, "write", full)
        told = self.refused(*memory, XDG_STATE_HOME=str(tmp_path))
        assert "No space left on device" in told

    def test_without_a_home_there_is_no_place_for_a_token(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def homeless() -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(Path, "home", homeless)
        assert "no home directory to store the access token" in self.refused("--store", "memory:")

    def test_a_store_that_does_not_answer_is_named_while_it_is_waited_for(
        self,
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}/0"
            store = f"redis://:sk-canary@{address}"
            with subprocess.Popen(
                [COMMAND, "serve", "--port", "0", "--store", store],
                stderr=subprocess.PIPE,
                env=QUIET,
                text=True,
            ) as process:
                assert process.stderr is not None
                waiting = process.stderr.readline()
                process.terminate()
                assert process.wait(10) == 143
                assert process.stderr.read() == ""
        assert waiting == f"argstream: waiting for the store redis://{address} …\n"

    @pytest.mark.parametrize("missing", [["uvicorn"], ["uvicorn", "httpx2", "anyio"]])
    def test_a_missing_extra_is_named_with_its_command(
        self, tmp_path: Path, missing: list[str]
    ) -> None:
        code = (
            f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
            "sys.argv[1:] = ['serve']\n"
            "from argstream.cli import main; main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env=QUIET,
            cwd=tmp_path,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert not list(tmp_path.iterdir())
        assert "pip install '.[server]'" in done.stderr
