"""docs/agent.md, tools.md, models.md and names.md: their programs run as they are."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from argstream import Agent, Approve, ScriptedModel
from argstream.models import CallTool as ScriptedCall
from argstream.testing import CallTool, MockProvider, Reply, Status
from tests.documents import Document, run_program
from tests.support.provider_rules import strict_provider

Printed: TypeAlias = pytest.CaptureFixture[str]
Run: TypeAlias = Callable[..., dict[str, Any]]

AGENT, TOOLS, MODELS, NAMES = DOCUMENTS = [
    Document(f"docs/{name}.md") for name in ("agent", "tools", "models", "names")
]
MULTIPLY, WAYS = AGENT.block("def multiply"), AGENT.block("agent.run_stream(", "asyncio.run")
APPROVER, PAUSE = AGENT.block("approver=approver"), AGENT.block("agent.resume(")
BUILD, BOOK, COUNTDOWN, RUN_PYTHON, STREAMED = (
    TOOLS.block(words)
    for words in ("def build", "def book", "def countdown", "def run_python", "Streamed.of")
)
SETTINGS = MODELS.block("ModelSettings(")
HELLO = Reply("Hello.")
MAIL = CallTool("send_mail", {"to": "ada@example.org", "text": "We are late."})
POEM = CallTool("write_file", {"path": "p.txt", "content": "Roses are red.", "overwrite": True})
FIELDS = "\n  path: p.txt\n  content: Roses are red.\n  overwrite: True\nwrote 14 characters"
SINGLE: dict[
    str, tuple[list[Reply], str]
] = {  # by program: replies of the provider, what it prints
    AGENT.block("except RunError"): ([Reply(faults=[Status(401)])], "authentication_error"),
    AGENT.block(".records()"): ([HELLO], " greeter run_"),
    AGENT.block("Conversation()"): ([HELLO, Reply("Ada.")], "Ada.\n4\n"),
    AGENT.block("run.stop("): ([Reply("Once upon a time. " * 500)], "stopped\n"),
    TOOLS.block("def search"): ([], "['Whales of the North Sea', 'A history of whales']\n"),
    TOOLS.block("file_tools"): ([], ""),
    MODELS.block("qwen3"): ([], ""),
    MODELS.block("Retries("): ([], ""),
    MODELS.block("ScriptedModel("): ([], ""),
    MODELS.block("AsyncAnthropic"): ([HELLO], "Hello.\n"),
    MODELS.block("AsyncOpenAI"): ([HELLO, HELLO], "Hello.\nHello.\n"),
    MODELS.block("provider.check()"): ([], ""),
    MODELS.block("def needs_tools"): ([], "tools: required here"),
    NAMES.block("ArgumentStarted(path=(key,))"): ([Reply(POEM), Reply("Done.")], FIELDS),
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a program in this process, in an empty folder, and return its names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
    monkeypatch.setenv("OPENAI_API_KEY", "any")

    def run_here(
        program: str, provider: MockProvider | None = None, typed: str = ""
    ) -> dict[str, Any]:
        if provider is not None:
            monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.anthropic_url)
            monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        names: dict[str, Any] = {"__name__": "program"}
        exec(compile(program, "program", "exec", dont_inherit=True), names)
        return names

    return run_here


def test_every_program_is_run_here_and_no_line_is_long() -> None:
    together = {MULTIPLY, WAYS, APPROVER, PAUSE, SETTINGS}
    together |= {BUILD, BOOK, COUNTDOWN, RUN_PYTHON, STREAMED}
    programs = {program for document in DOCUMENTS for program in document.programs}
    assert programs == together | SINGLE.keys()
    lines = [line for document in DOCUMENTS for line in document.text.splitlines()]
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("program", SINGLE, ids=lambda program: program.splitlines()[-1].strip())
def test_program_prints_what_it_should(program: str, run: Run, capsys: Printed) -> None:
    replies, printed = SINGLE[program]
    with strict_provider(replies or HELLO) as provider:
        run(program, provider)
        assert len(provider.requests) == len(replies)
    assert printed in capsys.readouterr().out


def test_agent_answers_in_all_ways(tmp_path: Path) -> None:
    replies = [Reply(CallTool("multiply", {"a": 123, "b": 456})), Reply("It is 56088.")]
    with strict_provider(replies, repeat=True) as provider:
        printed = run_program(MULTIPLY + WAYS, tmp_path, provider)
    assert printed.startswith(AGENT.block("56088", language="text"))
    assert printed.count("RunCompleted(") == 2
    assert printed.endswith(" end_turn\n")


@pytest.mark.parametrize("typed", ["y\n", "n\n"])
def test_approver_and_resume_decide(run: Run, capsys: Printed, typed: str) -> None:
    with strict_provider([Reply(MAIL), Reply("Done.")], repeat=True) as provider:
        resumed = run(APPROVER + PAUSE, provider, typed)["result"]
        after_approver = str(provider.requests[1].body)
    assert ("sent to ada@example.org" in after_approver) == (typed == "y\n")
    assert ("the user said no" in after_approver) == (typed == "n\n")
    assert resumed.tools[0].result == "sent to ada@example.org"
    assert capsys.readouterr().out.count("Done.") == 2


def test_settings_are_sent(run: Run) -> None:
    with strict_provider(HELLO) as provider:
        run(f"{SETTINGS}\nagent.run('Hello')", provider)
        body = provider.requests[0].body
    assert body is not None
    assert (body["max_tokens"], body["metadata"]) == (16_384, {"user_id": "7"})


def call(function: Any, arguments: dict[str, Any] | str) -> Any:
    """Let a scripted model call a tool, approve it, and return its result or error."""
    model = ScriptedModel(ScriptedCall(function.name, arguments), "Done.")
    [use] = Agent(model, [function], approver=lambda _: Approve()).run("Go").tools
    return use.result if use.error is None else use.error


def test_tools_return_their_results(run: Run) -> None:
    assert call(run(BOOK)["book"], {"flight": "LH1"}) == "booked LH1"
    assert call(run(COUNTDOWN)["countdown"], {"start": 2}) == "2\n1\n0\n"
    run_python = run(RUN_PYTHON)["run_python"]
    assert call(run_python, {"source": "print(6 * 7)"}) == "exit status 0\n42\n"


def test_cancelled_tool_removes_its_lock(run: Run) -> None:
    program = BUILD.replace("timeout=30", "timeout=0.3").replace('"make", target', '"sleep", "9"')
    assert "took longer than 0.3 s" in call(run(program)["build"], {"target": "all"})
    assert not Path("build.lock").exists()


def test_streamed_tool_writes_all_or_nothing(run: Run) -> None:
    write_file = run(STREAMED)["write_file"]
    assert Path("a.txt").read_text() == "some text"
    assert call(write_file, '{"path": "b.txt", "content": "Roses')  # an error: it is truncated
    assert call(write_file, {"path": "c.txt", "content": "Roses"}) == "written"
    assert sorted(path.name for path in Path().iterdir()) == ["a.txt", "c.txt"]
