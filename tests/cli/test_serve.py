"""``argstream serve`` in a process of its own: a real port, real clients."""

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from argstream.server import AgentServer
from argstream.testing import CallTool, Reply, Status
from tests.cli.in_process import argstream
from tests.cli.processes import ENVIRONMENT, Process, provided, running
from tests.server.talking import agent_for, routes_of
from tests.support import program_is_missing
from tests.support.provider_rules import strict_provider

QUIET = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("ARGSTREAM_")}
TOKEN = "canary-token-1234567890"
HELLO = {"message": "Hello"}


def data_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def text_in(frames: list[dict[str, Any]]) -> str:
    return "".join(frame.get("text", "") for frame in frames)


class Running:
    """The process, and its output so far."""

    def __init__(self, process: Process, folder: Path, token: str) -> None:
        self.process, self.folder = process, folder
        self.greeting = ""
        while "/decisions" not in self.greeting:
            line = process.stdout.readline().decode()
            assert line, f"it has ended: {process.stderr.read().decode()}"
            self.greeting += line
        self.url = self.greeting.split()[4]  # without a token
        link = re.search(r"Open +(\S+)", self.greeting)
        self.link = link[1] if link else ""  # to be opened in a browser
        created = re.search(r"'authorization: Bearer ([^$\s]+)'", self.greeting)
        self.token = created[1] if created else ""  # "" if the command did not create one
        token = self.token or token
        self.headers = {"authorization": f"Bearer {token}"} if token else {}

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers=self.headers | headers, timeout=20)

    def post(self, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        headers = self.headers | headers
        return httpx.post(self.url + path, json=body, headers=headers, timeout=20)

    def converse(self, message: str, conversation: str = "c") -> list[dict[str, Any]]:
        body = {"message": message, "conversation": conversation}
        answer = self.post("/api/converse", body)
        assert answer.status_code == 200, answer.text
        return data_lines(answer.text)

    def decide(self, done: dict[str, Any], **decision: object) -> str:
        """Decide on the pending call, and return the text of all events of the run."""
        (request,) = done["pending"]
        path = f"/api/runs/{done['run']}"
        decisions = {request["id"]: {"digest": request["digest"], **decision}}
        decided = self.post(f"{path}/decisions", {"decisions": decisions})
        assert decided.is_success, decided.text
        return json.dumps(data_lines(self.get(f"{path}/events").text), ensure_ascii=False)

    def answer(self, message: str, conversation: str, **decision: object) -> tuple[Any, str]:
        """Return the arguments of the pending call, and the text before and after the decision."""
        frames = self.converse(message, conversation)
        done = frames[-1]["done"]
        text = self.decide(done, **(decision or {"decision": "approve"}))
        return done["pending"][0]["input"], text_in(frames) + text

    def files(self) -> dict[str, str]:
        found = self.folder.glob("argstream-serve-*/*/*")
        return {path.name: path.read_text() for path in found}

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        self.process.send_signal(number)
        output, errors = self.process.communicate()
        return self.process.wait(), output.decode(), errors.decode()


@contextmanager
def serve(folder: Path, *arguments: str, **environment: str) -> Iterator[Running]:
    """Start the command. Its files are private though the umask would let all users read them."""
    places = {"TMPDIR": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    command = ("serve", "--port", "0", "--pace", "0", *arguments)
    settings = {"env": QUIET | places | environment, "cwd": folder, "umask": 0}
    with running(*command, **settings) as process:
        yield Running(process, folder, environment.get("ARGSTREAM_TOKEN", ""))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The command without options."""
    with serve(tmp_path_factory.mktemp("serve")) as running:
        yield running


def test_greeting_names_the_address_and_the_routes(server: Running) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    first, *others = server.greeting.splitlines()
    assert first == f"argstream is running at {server.url} (Ctrl-C to stop)"
    assert others[1:5] == [
        f"  Open     {server.url}/#token={server.token}",
        "  Model    demo script (use --model for a real one)",
        "  Runs     argstream.db",
        "  Token    kept in argstream.db.token",
    ]
    assert httpx.get(f"{server.url}/healthz").json() == {"status": "ok"}
    words = server.greeting.split()
    paths = [path for path in words if path.startswith("/api/") and "ID" not in path]
    assert paths == ["/api/converse", "/api/chat", "/api/ag-ui", "/api/runs"]
    for path in paths:
        assert server.post(path, {}).status_code in (400, 422)


def test_printed_curl_command_shows_an_answer(server: Running) -> None:
    if shutil.which("curl") is None:
        program_is_missing("curl is not installed: it is what the server is looked at with")
    (line,) = [line for line in server.greeting.splitlines() if "curl -N" in line]
    done = subprocess.run(
        [*shlex.split(line), "-sS"], capture_output=True, env=QUIET, text=True, check=True
    )
    frames = [next(iter(frame.items())) for frame in data_lines(done.stdout)]
    assert {kind for kind, _ in frames} == {
        "text", "thinking", "tool_start", "block", "tool_result", "done"
    }  # fmt: skip
    calls: dict[str, list[str]] = {}
    for kind, value in frames:
        if kind in ("tool_start", "block"):
            calls.setdefault(value["id"], []).append(kind)
    assert list(calls.values()) == [["tool_start", "block"]] * 3
    kind, value = frames[-1]
    assert (kind, value["status"]) == ("done", "paused")
    assert [request["name"] for request in value["pending"]] == ["write_file"]


class TestScript:
    """The script that answers if no model is named."""

    def test_it_answers_and_writes_a_file(self, server: Running) -> None:
        request, text = server.answer("Count {these} four words", "one")
        assert "This is a scripted demo; no API key needed." in text
        assert "4 words and 24 characters. 1,229 primes are below 10,000." in text
        assert request["path"] == "primes.py"
        assert 35 <= len(request["content"].splitlines()) <= 45
        assert "Saved: created primes.py with 40 lines" in text
        assert server.files()["primes.py"] == request["content"]
        assert "Demo, message 2. You can restart" in server.answer("And then?", "one")[1]

    @pytest.mark.parametrize(
        ("path", "answer"),
        [
            ("mine.txt", "Saved with your edits: created mine.txt"),
            ("/x.txt", "That failed: '/x.txt' is outside of the folder"),
            ("", "Denied, so primes.py was not written. End of"),
        ],
    )
    def test_it_reacts_to_each_decision(self, server: Running, path: str, answer: str) -> None:
        before = set(server.files())
        changed = {"decision": "approve", "arguments": {"path": path, "content": "mine"}}
        _, text = server.answer("Go", f"to-{path}", **(changed if path else {"decision": "deny"}))
        assert answer in text
        assert set(server.files()) - before == ({path} if path == "mine.txt" else set())

    def test_it_edits_a_file_without_asking(self, server: Running) -> None:
        frames = server.converse("Fix the tax in prices.py", "edit")
        [call] = [frame["block"] for frame in frames if "block" in frame]
        assert (call["name"], call["input"]["path"]) == ("edit_file", "prices.py")
        assert "The tax is now correct." in text_in(frames)
        written = [path.read_text() for path in server.folder.glob("argstream-serve-*/*/prices.py")]
        assert any(all(e["new"] in text for e in call["input"]["edits"]) for text in written)

    def test_policy_blocks_the_forbidden_call_while_it_is_written(self, server: Running) -> None:
        frames = server.converse("Try something forbidden", "forbidden")
        [invalid] = [frame["invalid"] for frame in frames if "invalid" in frame]
        assert (invalid["verdict"], invalid["reason"]) == ("rejected", "denied")
        assert "SSH keys are off limits" in invalid["message"]
        assert "The policy blocked the call" in text_in(frames)

    def test_long_message_is_not_repeated(self, server: Running) -> None:
        _, text = server.answer("word " * 20_000, "book", decision="deny")
        assert "40 words and 200 characters" in text

    def test_its_program_works(
        self, server: Running, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        request, _ = server.answer("Go", "program", decision="deny")
        monkeypatch.setattr("sys.argv", ["primes.py", "30"])
        code = compile(request["content"], "primes.py", "exec")
        exec(code, {"__name__": "__main__"})
        assert capsys.readouterr().out == " 2  3  5  7 11 13 17 19 23 29\n10 primes are below 30.\n"


class TestToken:
    """The token that the command creates if it is given none, and one that it is given."""

    def test_every_api_route_refuses_requests_without_it(self, server: Running) -> None:
        """The scenario of another local user, who knows the port and nothing else."""
        agent, _ = agent_for("Hello.")
        routes = routes_of(AgentServer(agent, token=None))
        # Deliberately open. None of them reveals anything about runs.
        is_open = {
            ("GET", "/healthz"),
            ("GET", "/"),
            ("GET", "/static/{path:path}"),
            ("GET", "/api/session"),  # reports to the page whether to ask for the token
            ("POST", "/api/session"),  # signs in
            ("DELETE", "/api/session"),  # signs out
        }
        assert is_open < set(routes)
        run = server.post("/api/runs", HELLO).json()["run"]
        listed = server.get("/api/runs").json()["runs"]
        with httpx.Client(base_url=server.url) as other_user:
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
        rebound = server.get("/api/runs", host="evil.example")
        assert rebound.json()["type"] == "urn:argstream:wrong-host"
        after = server.get("/api/runs").json()["runs"]
        assert [info["run"] for info in after] == [info["run"] for info in listed]

    def test_runs_and_token_survive_a_restart(self, tmp_path: Path) -> None:
        with serve(tmp_path) as running:
            token = running.token
            session = running.post("/api/session", {"token": token}, origin=running.url)
            done = running.converse("Hello")[-1]["done"]
            assert len(list(tmp_path.glob("argstream-serve-*"))) == 1
            assert running.end(signal.SIGINT) == (0, "\n", "")  # of the greeting
        names = {path.name.partition("-")[0] for path in tmp_path.iterdir()}
        assert names == {"argstream.db", "argstream.db.token"}
        file = tmp_path / "argstream.db.token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text() == f"{token}\n"
        assert len(token) >= 32
        with serve(tmp_path) as running:
            assert running.token == token
            cookies = {"cookie": session.headers["set-cookie"].partition(";")[0]}
            assert httpx.get(f"{running.url}/api/runs", headers=cookies).status_code == 200
            assert "“not today”" in running.decide(done, decision="deny", reason="not today")
            assert "message 2" in text_in(running.converse("And then?"))

    @pytest.mark.parametrize("state_home", ["state/deep", ""])
    def test_it_is_in_the_state_folder_if_the_store_is_no_file(
        self, tmp_path: Path, state_home: str
    ) -> None:
        home = tmp_path / "home"
        home.mkdir()
        state = tmp_path / state_home if state_home else home / ".local" / "state"
        environment = {"HOME": str(home), "XDG_STATE_HOME": str(state) if state_home else ""}
        with serve(tmp_path, "--store", "memory:", **environment) as running:
            token = running.token
        file = state / "argstream" / "server.token"
        assert file.read_text().strip() == token
        assert str(file) in running.greeting
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        for folder in (file.parent, state):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    def test_given_token_is_required_and_never_shown(self, tmp_path: Path) -> None:
        with serve(tmp_path, "--log-level", "debug", ARGSTREAM_TOKEN=TOKEN) as running:
            assert "Bearer $ARGSTREAM_TOKEN" in running.greeting
            assert "  Token    set by you; the page asks for it\n" in running.greeting
            assert httpx.get(f"{running.url}/static/argstream.js").status_code == 200
            assert httpx.post(f"{running.url}/api/runs", json=HELLO).status_code == 401
            assert running.post("/api/runs", HELLO).status_code == 201
            status, output, errors = running.end()
        assert status == 0
        assert TOKEN not in running.greeting + output + errors
        assert not list(tmp_path.glob("*.token"))

    def test_no_token_opens_the_server_and_prints_a_warning(self, tmp_path: Path) -> None:
        with serve(tmp_path, "--pace", "0.3", "--no-token") as running:
            assert "Token    none: any local user or process can start runs" in running.greeting
            assert f"Open     {running.url}/\n" in running.greeting
            assert "authorization" not in running.greeting
            assert httpx.get(f"{running.url}/api/runs").status_code == 200
            # A viewer gets the first words while the script pauses, and the reason of the end.
            url = f"{running.url}/api/converse"
            with httpx.stream("POST", url, json=HELLO, timeout=20) as answer:
                lines = answer.iter_lines()
                assert next(lines).startswith("data: ")
                running.process.send_signal(signal.SIGTERM)
                assert "the server is shutting down" in "".join(lines)
            assert running.process.wait(10) == 0
        assert not list(tmp_path.glob("*.token"))


class TestOptions:
    def test_tools_reach_neither_the_store_nor_secrets(self, tmp_path: Path) -> None:
        names = ["argstream.db", "argstream.db-wal", "argstream.db.token"]
        calls = [CallTool("write_file", {"path": name, "content": ""}) for name in names]
        replies = [Reply(*calls, CallTool("list_files", {})), Reply("Done.")]
        replies += [Reply(CallTool("run_command", {"command": "env"})), Reply("Done.")]
        replies.append(Reply(faults=[Status(401, "no such key: \x1b[31m\nWARNING: all is well")]))
        with strict_provider(replies) as provider:
            environment = {"TMPDIR": str(tmp_path.parent), "ARGSTREAM_TOKEN": TOKEN}
            policy = tmp_path.parent / "policy.toml"
            policy.write_text('default = "allow"\n')  # otherwise, writing needs approval
            options = ("--tools", "files,shell", "--policy", str(policy))
            with serve(tmp_path, *options, **environment, **provided(provider)) as running:
                frames = running.converse("Write.")
                done = running.converse("Look.")[-1]["done"]
                text = running.decide(done, decision="approve")
                run = running.converse("Fail.")[-1]["done"]["run"]
                _, _, errors = running.end()
        results = [frame["tool_result"] for frame in frames if "tool_result" in frame]
        outputs = [result.get("error") or result["output"] for result in results]
        kept = [f"{name} is kept from these tools: leave it alone" for name in names]
        assert sorted(outputs) == [". is empty", *kept]
        assert "exit status 0" in text
        assert "PATH=" in text
        assert TOKEN not in text
        assert "sk-canary" not in text + errors
        (line,) = errors.splitlines()  # a failed run is logged in one line
        assert line.startswith(f"WARNING: run {run}: failed: ")
        assert "no such key: ⟦ESC⟧[31m" in line

    def test_hosts_and_proxies_must_be_named(self, tmp_path: Path) -> None:
        def others(greeting: str, names: str) -> bool:
            pattern = rf"reachable from other machines on port \d+, {re.escape(names)}, with"
            return bool(re.search(pattern, " ".join(greeting.split())))

        everywhere = ("--host", "0.0.0.0", "--no-page")
        with serve(tmp_path, *everywhere, ARGSTREAM_TOKEN=TOKEN) as running:
            assert others(running.greeting, "by any name of this machine")
            assert "Open" not in running.greeting
            assert running.get("/static/argstream.js").status_code == 404
        host = ("--allowed-host", "agent.example")
        origin = {"host": "agent.example", "origin": "https://agent.example"}
        headers = {"x-forwarded-proto": "https", **origin}
        with serve(tmp_path, *everywhere, *host, ARGSTREAM_TOKEN=TOKEN) as running:
            assert others(running.greeting, "as localhost, 127.0.0.1, ::1, agent.example")
            assert running.post("/api/runs", HELLO, **headers).status_code == 403
        proxy = (*host, "--forwarded-from", "127.0.0.0/8")
        with serve(tmp_path, *proxy, ARGSTREAM_TOKEN=TOKEN) as running:
            answer = running.post("/api/runs", HELLO, **headers)
            assert answer.status_code == 201, answer.text

    def test_claude_code_is_served(self, tmp_path: Path) -> None:
        with strict_provider([Reply("It is me.")]) as provider:
            environment = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", **provided(provider)}
            environment["HOME"] = str(tmp_path / "home")
            with serve(tmp_path, "--model", "claude-agent", **environment) as running:
                frames = running.converse("Who is it?")
        assert text_in(frames) == "It is me."
        assert frames[-1]["done"]["status"] == "completed"


class TestWrongUse:
    @pytest.fixture(autouse=True)
    def _elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-canary")
        for name in ("XDG_STATE_HOME", "GROQ_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        for name in ("MODEL", "STORE", "TOKEN"):
            monkeypatch.delenv(f"ARGSTREAM_{name}", raising=False)

    def refused(self, *arguments: str, **variables: str) -> str:
        """Return the message of a refused start. It leaves no file and shows no secret."""
        before = sorted(Path.cwd().rglob("*"))
        done = argstream("serve", "--port", "0", *arguments, stdin=b"", **variables)
        assert (done.returncode, done.stdout) == (2, b"")
        assert sorted(Path.cwd().rglob("*")) == before
        message = done.stderr.decode()
        assert message.startswith("argstream: ")
        assert message.count("\n") == 1
        assert "canary" not in message
        return message

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ("--model nobody:knows", "nobody"),
            ("--model groq:any", "GROQ_API_KEY"),
            ("--model anthropic:claude-any --tools rocket", "unknown tool set 'rocket'"),
            ("--model anthropic:claude-any --policy no.toml", "no.toml"),
            ("--policy no.toml", "no.toml"),
            ("--store nowhere/runs.db", "nowhere/runs.db"),
            ("--tools files --model script", "--tools can't be used with --model script. Omit it"),
            ("--policy p --model claude-agent", "--policy can't be used with --model claude-agent"),
            ("--tools files --folder x", "provider:name, or omit --tools, --folder"),
            ("--forwarded-from proxy", "--forwarded-from is an address such as"),
            ("--model claude-agent --folder nowhere", "--folder nowhere is not a folder"),
            ("--store http://user:sk-canary@x", "not the address of a store"),
            ("--origin 'not an origin'", "not an origin"),
            (f"--token '{TOKEN} and more'", "visible ASCII characters"),
            (f"--no-token --token {TOKEN}", "--no-token cannot be combined with --token"),
        ],
    )
    def test_unusable_options_are_refused(self, arguments: str, message: str) -> None:
        assert message in self.refused(*shlex.split(arguments))

    def test_no_token_conflicts_with_the_variable(self) -> None:
        message = self.refused("--no-token", ARGSTREAM_TOKEN=TOKEN)
        assert "--no-token cannot be combined with ARGSTREAM_TOKEN" in message

    def test_taken_port_is_refused(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = str(listener.getsockname()[1])
            assert f"port {port} of '127.0.0.1' is already in use" in self.refused("--port", port)

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
    def test_other_machines_need_a_token(self, host: str) -> None:
        for arguments in (["--host", host], ["--host", host, "--no-token"]):
            message = self.refused(*arguments)
            assert "is reachable from other machines. Set a token with ARGSTREAM_TOKEN" in message

    @pytest.mark.parametrize("mode", [0o644, 0o660, 0o602])
    def test_token_file_open_to_others_is_refused(self, mode: int) -> None:
        file = Path("argstream.db.token")
        file.write_text(TOKEN)
        file.chmod(mode)
        message = self.refused()
        assert f"'argstream.db.token' is open to other users (mode {mode:04o})" in message
        assert "Delete it to get a new one, or set ARGSTREAM_TOKEN" in message

    def test_token_file_must_be_a_file_of_this_user(self, monkeypatch: pytest.MonkeyPatch) -> None:
        file = Path("argstream.db.token")
        file.symlink_to("elsewhere")
        assert "cannot read the token file 'argstream.db.token'" in self.refused()
        file.unlink()
        file.mkdir(mode=0o700)
        assert "cannot read the token file 'argstream.db.token'" in self.refused()
        file.rmdir()
        file.touch(0o600)
        assert "holds no token. Delete it" in self.refused()
        file.unlink()
        os.mkfifo(file, 0o600)
        assert "holds no token" in self.refused()  # without waiting for a writer
        file.unlink()
        file.write_text(TOKEN)
        file.chmod(0o600)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert "belongs to another user" in self.refused()

    def test_token_that_cannot_be_stored_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> Any:
            raise OSError(28, "No space left on device")

        def homeless() -> Path:
            raise RuntimeError("Could not determine home directory.")

        memory = ("--store", "memory:")
        with monkeypatch.context() as patch:
            patch.setattr(Path, "home", homeless)
            assert "no home directory to store the access token" in self.refused(*memory)
        (tmp_path / "argstream").mkdir()
        monkeypatch.setattr(os, "write", fail)
        assert "No space left" in self.refused(*memory, XDG_STATE_HOME=str(tmp_path))

    def test_store_that_does_not_answer_is_named(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}/0"
            store = f"redis://:sk-canary@{address}"
            with running("serve", "--port", "0", "--store", store, env=QUIET) as process:
                waiting = process.stderr.readline().decode()
                process.send_signal(signal.SIGTERM)
                assert process.wait(10) == 143
                assert process.stderr.read() == b""
        assert waiting == f"argstream: waiting for the store redis://{address} …\n"

    @pytest.mark.parametrize("missing", [["uvicorn"], ["uvicorn", "aiohttp"]])
    def test_missing_extra_is_named_with_its_install_command(self, missing: list[str]) -> None:
        code = (
            f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
            "sys.argv[1:] = ['serve']\n"
            "from argstream.cli import main; main()"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=QUIET)
        assert (done.returncode, done.stdout) == (2, "")
        assert not list(Path.cwd().iterdir())
        assert "pip install '.[server]'" in done.stderr
