"""The README: its programs run as they are, against a provider on loopback."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from argstream.testing import CallTool, MockProvider, Reply
from tests.documents import Document, environment, run_program
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


@pytest.fixture
def provider() -> Iterator[MockProvider]:
    with strict_provider([Reply(CallTool("write_file", POEM)), Reply("Done.")]) as provider:
        yield provider


def test_readme_is_short_and_every_python_block_is_run_here() -> None:
    run_here = {QUICKSTART, OWN_SDK, POLICY, AGENT, SURVIVING, SERVER, LANGGRAPH}
    assert README.programs == run_here
    assert len(README.text.splitlines()) <= 250


def test_quickstart_prints_what_the_readme_shows(tmp_path: Path) -> None:
    assert run_program(QUICKSTART, tmp_path) == block("content +=", language="text")
    assert len([line for line in QUICKSTART.splitlines() if line.strip()]) <= 15


def test_own_sdk_shows_the_file_as_it_is_written_and_malformed_arguments(tmp_path: Path) -> None:
    call = CallTool("write_file", POEM)
    with strict_provider([Reply(call), Reply(CallTool("write_file", '{"path": p}'))]) as provider:
        printed = run_program(OWN_SDK, tmp_path, provider)
        assert printed == f"{POEM['content']}\nrun write_file with {POEM}\n"
        printed = run_program(OWN_SDK, tmp_path, provider)
    assert printed.startswith("\ndo not run write_file: ")
    assert "at character 9" in printed


def test_policy_stops_a_write_outside_the_project(tmp_path: Path) -> None:
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
        denied, stopped = run_program(program, tmp_path, provider).splitlines()
        assert "write_file" in denied
        assert re.fullmatch(r"stopped after \d\d characters", stopped)
        assert run_program(program, tmp_path, provider) == ""


@pytest.mark.parametrize("typed", ["y\n", "n\n"])
def test_agent_writes_only_what_was_approved(
    tmp_path: Path, provider: MockProvider, typed: str
) -> None:
    printed = run_program(AGENT, tmp_path, provider, typed=typed)
    assert f"Run write_file with {POEM}? [y/n]" in printed
    written = [file.read_text() for file in tmp_path.glob("poem.txt")]
    assert written == ([POEM["content"]] if typed == "y\n" else [])


def test_surviving_run_is_resumed(tmp_path: Path) -> None:
    call = CallTool("send_mail", {"to": "ada@example.org", "text": "We are late."})
    with strict_provider([Reply(call), Reply("Ada knows.")]) as provider:
        assert run_program(SURVIVING, tmp_path, provider) == "Ada knows.\n"


def test_server_answers_with_its_token_only(tmp_path: Path) -> None:
    program = f"""{SERVER}
import socket, sys, threading, uvicorn
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
running = uvicorn.Server(uvicorn.Config(app, log_level="error"))
threading.Thread(target=lambda: (sys.stdin.read(), setattr(running, "should_exit", True))).start()
running.run(sockets=[listener])
"""
    with strict_provider(Reply("Hello there.")) as provider:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={**environment(provider), "ARGSTREAM_TOKEN": "a-token-of-some-length"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            url = f"http://127.0.0.1:{int(process.stdout.readline())}/agent/api/converse"
            refused = httpx.post(url, json={"message": "Hello"})
            headers = {"authorization": "Bearer a-token-of-some-length"}
            answer = httpx.post(url, json={"message": "Hello"}, headers=headers)
        finally:
            process.stdin.close()
            process.wait(20)
            process.stdout.close()
    assert refused.status_code == 401
    assert "".join(re.findall(r'"text":"([^"]*)"', answer.text)) == "Hello there."
    assert process.returncode == 0


def test_langgraph_shows_the_file_as_it_is_written(tmp_path: Path, provider: MockProvider) -> None:
    assert run_program(LANGGRAPH, tmp_path, provider) == POEM["content"]
