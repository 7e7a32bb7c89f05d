"""The README: its programs run as they are, against a provider on loopback."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from argstream.testing import CallTool, MockProvider, Reply
from tests.cli.in_process import run_file
from tests.documents import Document, environment
from tests.server.talking import hosted
from tests.support.provider_rules import strict_provider

README = Document("README.md")
block = README.block
POEM = {"path": "poem.txt", "content": "Roses are red, violets are blue."}

QUICKSTART = block("pieces = [")
OWN_SDK = block("anthropic.Anthropic()")
POLICY = block("Policy.load")
AGENT = block("approver=ask")
SURVIVING = block("agent.resume")
SERVER = block("AgentServer(")
LANGGRAPH = block("StateGraph")


Run = Callable[..., str]


@pytest.fixture
def run_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a program with a provider and returns its output."""
    monkeypatch.chdir(tmp_path)

    def run(program: str, provider: MockProvider | None = None, typed: str = "") -> str:
        file = tmp_path / "program.py"
        file.write_text(program, "utf-8")
        done = run_file(file, stdin=typed, **environment(provider))
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    return run


@pytest.fixture
def provider() -> Iterator[MockProvider]:
    with strict_provider([Reply(CallTool("write_file", POEM)), Reply("Done.")]) as provider:
        yield provider


def test_readme_is_short_and_every_python_block_is_run_here() -> None:
    run_here = {QUICKSTART, OWN_SDK, POLICY, AGENT, SURVIVING, SERVER, LANGGRAPH}
    assert README.programs == run_here
    assert len(README.text.splitlines()) <= 250


def test_quickstart_prints_what_the_readme_shows(run_program: Run) -> None:
    assert run_program(QUICKSTART) == block("content +=", language="text")
    assert len([line for line in QUICKSTART.splitlines() if line.strip()]) <= 15


def test_own_sdk_shows_the_file_as_it_is_written_and_malformed_arguments(run_program: Run) -> None:
    call = CallTool("write_file", POEM)
    with strict_provider([Reply(call), Reply(CallTool("write_file", '{"path": p}'))]) as provider:
        printed = run_program(OWN_SDK, provider)
        assert printed == f"{POEM['content']}\nrun write_file with {POEM}\n"
        printed = run_program(OWN_SDK, provider)
    assert printed.startswith("\ndo not run write_file: ")
    assert "at character 9" in printed


def test_policy_stops_a_write_outside_the_project(run_program: Run, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    rules = block("[[rules]]", language="toml").replace("/srv/project", str(project))
    (tmp_path / "policy.toml").write_text(rules)
    program = f"""import anthropic
messages = [{{"role": "user", "content": "Go"}}]
source = anthropic.Anthropic().messages.create(
    model="claude-opus-4-7", max_tokens=99, messages=messages, stream=True
)
{POLICY}"""
    outside, inside = (
        Reply(CallTool("write_file", {"path": path, "content": "x" * 2000}))
        for path in ("../secret", "notes.txt")
    )
    with strict_provider([outside, inside]) as provider:
        denied, stopped = run_program(program, provider).splitlines()
        assert "write_file" in denied
        assert re.fullmatch(r"stopped after \d\d characters", stopped)
        assert run_program(program, provider) == ""


@pytest.mark.parametrize("typed", ["y\n", "n\n"])
def test_agent_writes_only_what_was_approved(
    run_program: Run, tmp_path: Path, provider: MockProvider, typed: str
) -> None:
    printed = run_program(AGENT, provider, typed=typed)
    assert f"Run write_file with {POEM}? [y/n]" in printed
    written = [file.read_text() for file in tmp_path.glob("poem.txt")]
    assert written == ([POEM["content"]] if typed == "y\n" else [])


def test_surviving_run_is_resumed(run_program: Run) -> None:
    call = CallTool("send_mail", {"to": "ada@example.org", "text": "We are late."})
    with strict_provider([Reply(call), Reply("Ada knows.")]) as provider:
        assert run_program(SURVIVING, provider) == "Ada knows.\n"


def test_server_answers_with_its_token_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "a-token-of-some-length"
    with strict_provider(Reply("Hello there.")) as provider:
        for name, value in {**environment(provider), "ARGSTREAM_TOKEN": token}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        program: dict[str, Any] = {}
        exec(SERVER, program)
        with hosted(program["app"], "/agent") as client:
            hello = {"message": "Hello"}
            refused = client.post("/api/converse", hello)
            answer = client.post("/api/converse", hello, authorization=f"Bearer {token}")
    assert refused.status_code == 401
    assert "".join(re.findall(r'"text":"([^"]*)"', answer.text)) == "Hello there."


def test_langgraph_shows_the_file_as_it_is_written(
    run_program: Run, provider: MockProvider
) -> None:
    assert run_program(LANGGRAPH, provider) == POEM["content"]
