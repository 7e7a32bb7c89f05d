"""The programs of the README and of docs/ run as they are, against a provider on loopback."""

import gc
import io
import os
import re
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from argstream import Agent, Approve, ScriptedModel
from argstream.models import CallTool as ScriptedCall
from argstream.testing import CallTool, MockProvider, Reply, Slow, Status
from tests.documents import ROOT, Document, keys_for, run_program
from tests.server.talking import hosted
from tests.support.provider_rules import strict_provider

README = Document("README.md")
DOCS = {path.stem: Document(f"docs/{path.name}") for path in sorted((ROOT / "docs").glob("*.md"))}
AGENT, APPROVALS, MODELS, NAMES, RUNS, RUN_STATE, TOOLS = map(
    DOCS.__getitem__, ("agent", "approvals", "models", "names", "runs", "run-state", "tools")
)
POLICY, PROVIDERS, RECORDINGS, STREAMING, ORDER, VALIDATION = map(
    DOCS.__getitem__,
    ("policy", "providers", "recordings", "streaming", "tool-order", "validation"),
)
OPENAI_AGENTS, PYDANTIC_AI, TERMINAL = map(
    DOCS.__getitem__, ("openai-agents", "pydantic-ai", "terminal")
)

TOKEN = "a-token-of-some-length"
POEM = {"path": "poem.txt", "content": "Roses are red."}
CREATE = {**POEM, "mode": "create"}
NOTE = CallTool("save_note", {"title": "Build", "body": "# Green"})
EDIT = CallTool("edit_file", {"path": "README", "edits": ["poem.txt"]})
MAIL = CallTool("send_mail", {"to": "ada@example.org", "text": "We are late."})
PUBLISH = Reply(CallTool("publish", {"version": "2.0"}))
HELLO, DONE = Reply("Hello."), Reply("Done.")


def writing(**arguments: Any) -> Reply:
    return Reply(CallTool("write_file", POEM | arguments))


WRITE, OUTSIDE = writing(), writing(path="/etc/x")
BELOW_SRV = [writing(path="/srv/poem"), DONE]
WRITTEN = "write_file: /srv/poemRoses are red.\nwrote 14 characters\nDone.\n"
FIELDS = "…\n  path: poem.txt\n  content: Roses are red.\n  overwrite: True\nwrote 14 characters…"
READ = "write_file poem.txt\nRoses are red.\ncomplete, with 2 arguments\n"
READ += "edit_file README\n+ poem.txt\n\ncomplete, with 2 arguments\n"
TYPED = (
    "['path']\npoem.txt\ncontent is not complete yet\npath='poem.txt' content='Roses are red.'\n"
)
ADD = Reply(CallTool("add", {"a": 1, "b": 2}))
STATES = "run: running\n…\n[add writing None]\n…\n[add written {'a': 1, 'b': 2}]\n"

# By program: the replies of the provider, and what it prints. … stands for any text.
SINGLE: dict[str, tuple[list[Reply], str]] = {
    README.block("pieces = ["): ([], README.block("content +=", language="text")),
    README.block("StateGraph"): ([WRITE], "Roses are red."),
    README.block("agent.resume"): ([Reply(MAIL), Reply("Ada knows.")], "Ada knows.\n"),
    AGENT.block("except RunError"): ([Reply(faults=[Status(401)])], "…authentication_error…"),
    AGENT.block(".records()"): ([HELLO], "… greeter run_…"),
    AGENT.block("Conversation()"): ([HELLO, Reply("Ada.")], "…Ada.\n4\n"),
    AGENT.block("run.stop("): (
        [Reply("Once upon a time. " * 500, faults=[Slow(total=30)])],  # stopped long before its end
        "…stopped\n",
    ),
    APPROVALS.block("def make_agent"): (
        [PUBLISH, Reply("2.0 is out.")],
        "paused [{'version': '2.0'}]\n2.0 is out.\n",
    ),
    APPROVALS.block("on holiday"): ([], APPROVALS.block("on holiday", language="text")),
    TOOLS.block("def search"): ([], "…['Whales of the North Sea', 'A history of whales']\n…"),
    TOOLS.block("file_tools"): ([], ""),
    MODELS.block("qwen3"): ([], ""),
    MODELS.block("Retries("): ([], ""),
    MODELS.block("ScriptedModel("): ([], "…"),
    MODELS.block("AsyncAnthropic"): ([HELLO], "Hello.\n"),
    MODELS.block("AsyncOpenAI"): ([HELLO, HELLO], "Hello.\nHello.\n"),
    MODELS.block("provider.check()"): ([], "…"),
    MODELS.block("def needs_tools"): ([], "…tools: required here…"),
    NAMES.block("ArgumentStarted(path=(key,))"): ([writing(overwrite=True), DONE], FIELDS),
    STREAMING.block("case ToolCallStarted"): (
        [Reply("Sure.", CallTool("write_file", POEM))],
        f"Sure.\nwrite_file: poem.txtRoses are red.\ncomplete: {POEM}\n",
    ),
    STREAMING.block("live_calls()"): ([Reply(CallTool("write_file", POEM), EDIT)], READ),
    STREAMING.block("typed(WriteFile"): ([WRITE], TYPED),
    STREAMING.block("feed.CallStarted"): (
        [],
        "poem.txtRoses are red.\ncomplete: ['path', 'content']\n",
    ),
    VALIDATION.block("formats=True"): ([], "True False\n"),
    POLICY.block("policy.decide"): ([], "deny rule 1 ('path',) Write only below /srv.…"),
    PROVIDERS.block("events.usage"): ([Reply("Red.")], "Red.\n100 …1 output tokens\n"),
    ORDER.block("lint(tool_specs(tools))"): ([], "order write_file ('path', 'content')\n…"),
    ORDER.block("class WriteFile"): ([], "['path', 'overwrite', 'content']\n"),
    PYDANTIC_AI.block("events.usage"): (BELOW_SRV, f"{WRITTEN}… output tokens\n"),
    PYDANTIC_AI.block("run_stream_events", "policy=policy"): ([OUTSIDE], "…denied by the policy…"),
    RUN_STATE.block("state = RunState()"): (
        [ADD, Reply("3.")],
        f"\n{STATES}…\n3.\nrun: completed\n",
    ),
    TERMINAL.block("terminal.say("): ([WRITE, Reply("It is there.")], "…It is there.…Saved.\n"),
    TERMINAL.block("show(stream("): ([Reply("**Red**.")], "│ Red.\n✓ Done in … out tokens\n"),
    TERMINAL.block("show=True"): ([WRITE, Reply("It is there.")], "> Write…It is there.…✓ Done…"),
    TERMINAL.block("ToolViews("): ([Reply(NOTE), Reply("It is saved.")], "…# Green…It is saved.…"),
    TERMINAL.block("TerminalApprover("): (
        [Reply(CallTool("run_command", {"command": "make"})), Reply("It is made.")],
        "…run it in a terminal…It is made.…",
    ),
}
OWN_SDK, WITH_POLICY, ASKING, SERVER = map(
    README.block, ("anthropic.Anthropic()", "Policy.load", "approver=ask", "AgentServer(")
)
MULTIPLY, WAYS = AGENT.block("def multiply"), AGENT.block("agent.run_stream(", "asyncio.run")
APPROVER, PAUSE, OVER_HTTP = map(
    APPROVALS.block, ("approver=approver", "agent.resume(result", "Serving(")
)
DECIDING, CONTINUING = map(APPROVALS.block, ("def approve_pending", "def resume_if_paused"))
BOOK, COUNTDOWN, RUN_PYTHON, STREAMED, CAPITAL, FORECAST = map(
    TOOLS.block,
    (
        *("def book", "def countdown", "def run_python", "Streamed.of"),
        *('start="when_complete"', "provider_tools="),
    ),
)
SETTINGS = MODELS.block("ModelSettings(")
SCHEMA, MANY, ON_ASK = map(
    VALIDATION.block, ("def ask(prompt)", "make_check(tools)", 'on_ask="report"')
)
LOADED = POLICY.block("Policy.load")
ORDERED = ORDER.block('"overwrite": {"type"')
HANDLER = PYDANTIC_AI.block("event_stream_handler")
LIVE_OPENAI_AGENTS, DENY_OPENAI_AGENTS = map(OPENAI_AGENTS.block, ("events.usage", "policy=policy"))
PAUSING, RESUMING, RECOVERY = map(
    RUNS.block, ("Release version 2.0.", "decisions = {request.call_id: ", "async def recover")
)
WATCHING, USERS = RUNS.block("store.watch(run_id)"), RUNS.block('user="ada"')
OBSERVING = RUNS.block("observe(query(", "import ToolArgsCompleted, observe")
APPROVING = RUNS.block("can_use_tool=observer.can_use_tool")
SERVING = DOCS["server"].block("serve(app, port=8000)")
RECORDING = [
    RECORDINGS.block(words)
    for words in (
        *("record(response.iter_bytes()", ".play(speed=2)", "MockProvider.replaying"),
        *("Waterfall(state)", "RecordingProxy("),
    )
]
SEVERAL = {
    *(OWN_SDK, WITH_POLICY, ASKING, SERVER, MULTIPLY, WAYS, APPROVER, PAUSE, BOOK, CAPITAL),
    *(COUNTDOWN, RUN_PYTHON, STREAMED, FORECAST, SETTINGS, SCHEMA, MANY, ON_ASK, LOADED, ORDERED),
    *(HANDLER, LIVE_OPENAI_AGENTS, DENY_OPENAI_AGENTS, PAUSING, RESUMING, RECOVERY, DECIDING),
    *(CONTINUING, WATCHING, USERS, OBSERVING, APPROVING, SERVING, OVER_HTTP, *RECORDING),
}
ELSEWHERE = {
    DOCS["server"].block("FastAPI("),  # tests/server/test_app.py
    DOCS["front-ends"].block("ai_sdk.encode(", "FastAPI("),  # test_docs_front_ends.py
    DOCS["front-ends"].block("ag_ui.encode(", "FastAPI("),  # test_docs_front_ends.py
}
CUT_OFF = """
async def cut_off():
    async for event in agent.run_stream("Release version 2.0."):
        asyncio.current_task().cancel()


import asyncio, contextlib
with contextlib.suppress(asyncio.CancelledError):
    asyncio.run(cut_off())
"""


class Programs:
    """Runs programs in this process, in an empty folder, and returns what they print."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self.names: dict[str, Any] = {}  # of the last program

    def run(self, *parts: str, provider: MockProvider | None = None, typed: str = "") -> str:
        for name, value in keys_for(provider).items():
            self._monkeypatch.setenv(name, value)
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        self.close()
        self.names = {"__name__": "__main__"}
        with _unclosed_clients():
            exec(compile("\n".join(parts), "program", "exec"), self.names)
        return self._capsys.readouterr().out

    def close(self) -> None:
        """Drop the clients of the last program."""
        with _unclosed_clients():
            self.names.clear()


@contextmanager
def _unclosed_clients() -> Iterator[None]:
    """Allow what the programs do: they leave their clients to the end of the process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture
def programs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Programs]:
    monkeypatch.chdir(tmp_path)
    with closing(Programs(monkeypatch, capsys)) as programs:
        yield programs


def test_every_program_is_run_or_is_a_doctest() -> None:
    found = {text for document in (README, *DOCS.values()) for text in document.programs}
    programs = {text for text in found if not text.startswith(">>>")}
    assert programs == SINGLE.keys() | SEVERAL | ELSEWHERE


def test_documents_are_short_and_the_index_lists_every_page() -> None:
    assert len(README.text.splitlines()) <= 250
    quickstart = README.block("pieces = [").splitlines()
    assert len([line for line in quickstart if line.strip()]) <= 15
    pages = [AGENT, APPROVALS, DOCS["front-ends"], MODELS, NAMES, TOOLS]
    lines = [line for page in pages for line in page.text.splitlines()]
    assert [line for line in lines if len(line) > 120] == []
    index = DOCS["index"].text
    assert [name for name in DOCS if f"({name}.md)" not in index] == ["index"]


@pytest.mark.parametrize("program", SINGLE, ids=lambda program: program.splitlines()[-1].strip())
def test_program_prints_what_it_should(program: str, programs: Programs) -> None:
    replies, printed = SINGLE[program]
    with strict_provider(replies or HELLO) as provider:
        found = programs.run(program, provider=provider)
        assert len(provider.requests) == len(replies)
    pattern = ".*".join(map(re.escape, printed.split("…")))
    assert re.fullmatch(pattern, found, re.DOTALL), found


# README


def test_own_sdk_shows_the_file_as_it_is_written_and_malformed_text(programs: Programs) -> None:
    malformed = Reply(CallTool("write_file", '{"path": p}'))
    with strict_provider([WRITE, malformed]) as provider:
        printed = programs.run(OWN_SDK, provider=provider)
        assert printed == f"{POEM['content']}\nrun write_file with {POEM}\n"
        printed = programs.run(OWN_SDK, provider=provider)
    assert printed.startswith("\ndo not run write_file: ")
    assert "at character 9" in printed


def test_policy_stops_a_write_outside_the_project(programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    rules = README.block("[[rules]]", language="toml")
    Path("policy.toml").write_text(rules.replace("/srv/project", f"{tmp_path}/project"))
    source = """import anthropic
messages = [{"role": "user", "content": "Go"}]
source = anthropic.Anthropic().messages.create(
    model="claude-opus-4-7", max_tokens=99, messages=messages, stream=True
)"""
    replies = [writing(path=path, content="x" * 2000) for path in ("../secret", "notes.txt")]
    with strict_provider(replies) as provider:
        denied, stopped = programs.run(source, WITH_POLICY, provider=provider).splitlines()
        assert "write_file" in denied
        assert re.fullmatch(r"stopped after \d\d characters", stopped)
        assert programs.run(source, WITH_POLICY, provider=provider) == ""


@pytest.mark.parametrize("typed", ["y\n", "n\n"])
def test_agent_writes_only_what_was_approved(programs: Programs, typed: str) -> None:
    with strict_provider([WRITE, DONE]) as provider:
        printed = programs.run(ASKING, provider=provider, typed=typed)
    assert f"Run write_file with {POEM}? [y/n]" in printed
    written = [file.read_text() for file in Path().glob("poem.txt")]
    assert written == ([POEM["content"]] if typed == "y\n" else [])


@pytest.mark.parametrize(("program", "path"), [(SERVER, "/agent"), (SERVING, "")])
def test_server_answers_with_its_token_only(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, program: str, path: str
) -> None:
    monkeypatch.setattr("argstream.server.serve", lambda _, *, port: port)
    monkeypatch.setenv("ARGSTREAM_TOKEN", TOKEN)
    with strict_provider(Reply("Hello there.")) as provider:
        programs.run(program, provider=provider)
        with hosted(programs.names["app"], path) as client:
            hello = {"message": "Hello"}
            refused = client.post("/api/converse", hello)
            answer = client.post("/api/converse", hello, authorization=f"Bearer {TOKEN}")
    assert refused.status_code == 401
    assert "".join(re.findall(r'"text":"([^"]*)"', answer.text)) == "Hello there."


# Agents, tools and models


def test_agent_answers_in_all_ways(tmp_path: Path) -> None:
    replies = [Reply(CallTool("multiply", {"a": 123, "b": 456})), Reply("It is 56088.")]
    with strict_provider(replies, repeat=True) as provider:
        printed = run_program(MULTIPLY + WAYS, tmp_path, provider)
    assert printed.startswith(AGENT.block("56088", language="text"))
    assert printed.count("RunCompleted(") == 2
    assert printed.endswith(" end_turn\n")


@pytest.mark.parametrize("typed", ["y\n", "n\n"])
def test_approver_and_resume_decide(programs: Programs, typed: str) -> None:
    with strict_provider([Reply(MAIL), DONE], repeat=True) as provider:
        printed = programs.run(APPROVER + PAUSE, provider=provider, typed=typed)
        after_approver = str(provider.requests[1].body)
    assert ("sent to ada@example.org" in after_approver) == (typed == "y\n")
    assert ("the user said no" in after_approver) == (typed == "n\n")
    assert programs.names["result"].tools[0].result == "sent to ada@example.org"
    assert printed.count("Done.") == 2


def test_settings_are_sent(programs: Programs) -> None:
    with strict_provider(HELLO) as provider:
        programs.run(SETTINGS, "agent.run('Hello')", provider=provider)
        body = provider.requests[0].body or {}
    assert (body["max_tokens"], body["metadata"]) == (16_384, {"user_id": "7"})


def call(function: Any, arguments: dict[str, Any] | str) -> Any:
    """Let a scripted model call a tool, approve it, and return its result or error."""
    model = ScriptedModel(ScriptedCall(function.name, arguments), "Done.")
    [use] = Agent(model, [function], approver=lambda _: Approve()).run("Go").tools
    return use.result if use.error is None else use.error


@pytest.mark.parametrize(
    ("program", "name", "arguments", "result"),
    [
        (BOOK, "book", {"flight": "LH1"}, "booked LH1"),
        (COUNTDOWN, "countdown", {"start": 2}, "2\n1\n0\n"),
        (RUN_PYTHON, "run_python", {"source": "print(6 * 7)"}, "exit status 0\n42\n"),
        (CAPITAL, "capital", {"country": "Norway"}, "Oslo"),
    ],
)
def test_tool_returns_its_result(
    programs: Programs, program: str, name: str, arguments: dict[str, Any], result: str
) -> None:
    programs.run(program)
    assert call(programs.names[name], arguments) == result


def test_cancelled_tool_kills_its_program(programs: Programs) -> None:
    source = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    timeout = 1
    while not Path("pid").exists():
        programs.run(RUN_PYTHON.replace("timeout=10", f"timeout={timeout}"))
        error = call(programs.names["run_python"], {"source": source})
        assert f"took longer than {timeout} s" in error
        timeout *= 3  # a busy machine needs longer to start the program
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path("pid").read_text()), 0)


def test_options_and_tools_of_the_provider_are_sent(programs: Programs) -> None:
    with strict_provider(Reply("It rains.")) as provider:
        assert programs.run(FORECAST, provider=provider) == "It rains.\n"
        forecast, search = (provider.requests[0].body or {})["tools"]
    assert (forecast["name"], forecast["defer_loading"]) == ("forecast", True)
    assert forecast["input_examples"] == [{"city": "Oslo", "days": 3}]
    assert search["name"] == "tool_search_tool_bm25"


def test_streamed_tool_writes_all_or_nothing(programs: Programs) -> None:
    programs.run(STREAMED)
    write_file = programs.names["write_file"]
    assert Path("a.txt").read_text() == "some text"
    assert call(write_file, '{"path": "b.txt", "content": "Roses')  # an error: it is truncated
    assert call(write_file, {"path": "c.txt", "content": "Roses"}) == "written"
    assert sorted(path.name for path in Path().iterdir()) == ["a.txt", "c.txt"]


# Checks and frameworks


def test_schema_rejects_a_wrong_mode_early_and_serves_many_streams(programs: Programs) -> None:
    replies = [writing(mode=mode) for mode in ("replace", "create", "create")]
    with strict_provider(replies) as provider:
        rejected, *paths = programs.run(SCHEMA, MANY, provider=provider).splitlines()
    assert rejected.startswith("write_file was rejected at character ")
    assert paths == ["poem.txt", "poem.txt"]


def test_reported_ask_is_approved_by_the_program(programs: Programs) -> None:
    with strict_provider([Reply(CallTool("write_file", CREATE))] * 2) as provider:
        printed = programs.run(SCHEMA, ON_ASK, provider=provider, typed="y\n")
    assert printed.endswith("run write_file\n")
    assert f"run write_file with {CREATE}\n" in printed


def test_policy_file_denies_a_path_outside_the_project(programs: Programs) -> None:
    Path("policy.toml").write_text(POLICY.block("[[rules]]", language="toml"), "utf-8")
    with strict_provider([writing(path="../x"), WRITE]) as provider:
        printed = programs.run(LOADED, provider=provider)
        assert programs.run(LOADED, provider=provider) == "write_file: ask\n"
    assert printed.startswith("write_file must not run: ")
    assert "Write only inside the project." in printed


def test_reordered_schema_has_the_order_of_the_model(programs: Programs) -> None:
    printed = programs.run(ORDERED, "print(list(schema['properties']))")
    assert printed == "['path', 'overwrite', 'content']\n"


def test_handler_of_pydantic_ai_shows_arguments_and_refuses_a_call(programs: Programs) -> None:
    with strict_provider(BELOW_SRV) as provider:
        printed = programs.run(HANDLER, provider=provider)
    assert printed == "/srv/poemRoses are red.\nDone.\n"
    with (
        strict_provider(OUTSIDE) as provider,
        pytest.raises(PermissionError, match="denied by the policy"),
    ):
        programs.run(HANDLER, provider=provider)


def test_openai_agents_shows_the_file_as_it_is_written_and_stops_a_denied_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    with strict_provider(BELOW_SRV) as provider:
        printed = run_program(LIVE_OPENAI_AGENTS, tmp_path, provider)
    assert printed.startswith(WRITTEN)
    assert printed.endswith(" output tokens\n")
    with strict_provider(OUTSIDE) as provider:
        assert "denied by the policy" in run_program(DENY_OPENAI_AGENTS, tmp_path, provider)
        assert len(provider.requests) == 1


# Runs, servers and recordings


def test_paused_run_is_resumed_with_decisions(programs: Programs) -> None:
    with strict_provider([PUBLISH, Reply("2.0 is out.")]) as provider:
        first, last = programs.run(PAUSING, RESUMING, provider=provider).splitlines()
    assert first.endswith("wants to run publish with {'version': '2.0'}")
    assert last == "2.0 is out."


def test_run_is_decided_in_the_store_and_watched(programs: Programs) -> None:
    parts = (PAUSING, DECIDING, CONTINUING, WATCHING)
    with strict_provider([PUBLISH, Reply("2.0 is out.")]) as provider:
        printed = programs.run(*parts, provider=provider).splitlines()
    assert printed[1] == "approve publish with {'version': '2.0'}"
    assert printed[2].startswith("Release version 2.0. (completed, ")


def test_paused_run_is_approved_over_http(programs: Programs) -> None:
    with strict_provider([PUBLISH, Reply("2.0 is out.")]) as provider:
        printed = programs.run(PAUSING, OVER_HTTP, provider=provider).splitlines()
    assert printed[1:] == ["completed"]


def test_recovery_resumes_a_run_that_was_cut_off(programs: Programs) -> None:
    show = "print([run.status for run in asyncio.run(agent.store.runs())])"
    with strict_provider([PUBLISH] * 3) as provider:
        printed = programs.run(PAUSING, CUT_OFF, show, RECOVERY, show, provider=provider)
    assert printed.splitlines()[1:] == ["['running', 'paused']", "['paused', 'paused']"]


def test_conversation_of_a_user_is_continued(programs: Programs) -> None:
    with strict_provider([Reply("On its way."), Reply("At your door.")]) as provider:
        printed = programs.run(USERS, provider=provider).splitlines()
        assert len((provider.requests[1].body or {})["messages"]) == 3
    assert printed[1::2] == ["On its way.", "At your door."]


@pytest.mark.parametrize("program", [OBSERVING, APPROVING])
def test_claude_code_is_observed_and_approved(
    program: str, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk = pytest.importorskip("claude_agent_sdk")
    song = {"file_path": "song.txt", "content": "99 bottles"}

    async def query(prompt: str, options: Any = None) -> AsyncIterator[dict[str, Any]]:
        call = {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": song}
        yield {"type": "system", "subtype": "init"}
        yield {"type": "assistant", "message": {"id": "msg_1", "content": [call]}}
        if options is not None:
            context = sdk.ToolPermissionContext(tool_use_id="toolu_1")
            allowed = await options.can_use_tool("Write", song, context)
            assert isinstance(allowed, sdk.PermissionResultAllow)
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "created"}
        yield {"type": "user", "message": {"content": [result]}}
        yield {"type": "result", "subtype": "success", "is_error": False, "result": prompt}

    monkeypatch.setattr(sdk, "query", query)
    assert "Write a song about bottles to song.txt.\n" in programs.run(program)


def test_stream_is_recorded_replayed_served_and_drawn(programs: Programs) -> None:
    with strict_provider([WRITE, Reply("Hello there.")]) as provider:
        program = "".join(RECORDING).replace("https://api.anthropic.com", provider.url)
        printed = programs.run(program, provider=provider).splitlines()
    assert printed[:2] == [str(POEM), str([POEM])]
    assert {"ToolCallStarted", "TurnCompleted", "tool_use"} <= set(printed)
    assert printed[-1] == "Hello there."
    assert "write_file" in Path("turn.svg").read_text(encoding="utf-8")
    assert [file.name for file in Path("recordings").iterdir()] == ["0001-messages.rec"]
