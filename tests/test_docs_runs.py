"""The programs of docs/runs.md, server.md, recordings.md and terminal.md run as they are."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from argstream.server import AgentServer, Serving
from argstream.testing import CallTool, MockProvider, Reply
from tests.documents import Document
from tests.support.provider_rules import strict_provider

RunHere: TypeAlias = Callable[[str, MockProvider], str]

RUNS = Document("docs/runs.md")
PAUSING = RUNS.block("Release version 2.0.")
RESUMING = RUNS.block("decisions = {request.call_id: Approve()")
RECOVERY = RUNS.block("async def recover")
DECIDING = RUNS.block("async def approve_pending")
CONTINUING = RUNS.block("async def resume_if_paused")
WATCHING = RUNS.block("store.watch(run_id)")
USERS = RUNS.block('user="ada"')
OBSERVING = RUNS.block("observe(query(", "import ToolArgsCompleted, observe")
APPROVING = RUNS.block("can_use_tool=observer.can_use_tool")

RUN_STATE = Document("docs/run-state.md")
RENDERING = RUN_STATE.block("state = RunState()")

SERVER = Document("docs/server.md")
SERVING = SERVER.block("serve(app, port=8000)")
FASTAPI = SERVER.block("FastAPI(")  # tests/server/test_app.py runs it

RECORDINGS = Document("docs/recordings.md")
RECORDING = [
    RECORDINGS.block("record(response.iter_bytes()"),
    RECORDINGS.block(".play(speed=2)"),
    RECORDINGS.block("MockProvider.replaying"),
    RECORDINGS.block("Waterfall(state)"),
    RECORDINGS.block("RecordingProxy("),
]

TERMINAL = Document("docs/terminal.md")
SHOWING = TERMINAL.block("terminal.say(")
VIEWS = TERMINAL.block("ToolViews(")
ASKING = TERMINAL.block("TerminalApprover(")

POEM = {"path": "poem.txt", "content": "Roses are red."}
WRITE = CallTool("write_file", POEM)
PUBLISH = Reply(CallTool("publish", {"version": "2.0"}))
WANTED = "wants to run publish with {'version': '2.0'}"
CUT_OFF = """
async def cut_off():
    async for event in agent.run_stream("Release version 2.0."):
        asyncio.current_task().cancel()


import asyncio, contextlib
with contextlib.suppress(asyncio.CancelledError):
    asyncio.run(cut_off())
"""


@pytest.fixture
def run_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunHere:
    """Return a function that runs a program in this process and returns what it prints."""

    def run(program: str, provider: MockProvider) -> str:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.anthropic_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-of-some-length")
        monkeypatch.chdir(tmp_path)
        exec(program, {"__name__": "__main__"})
        return capsys.readouterr().out

    return run


def test_every_python_block_is_run() -> None:
    deciding = {DECIDING, CONTINUING, WATCHING}
    assert RUNS.programs == {PAUSING, RESUMING, RECOVERY, *deciding, USERS, OBSERVING, APPROVING}
    assert SERVER.programs == {SERVING, FASTAPI}
    assert RECORDINGS.programs == set(RECORDING)
    assert TERMINAL.programs == {SHOWING, VIEWS, ASKING}


def test_paused_run_is_resumed_with_decisions(run_here: RunHere) -> None:
    with strict_provider([PUBLISH, Reply("2.0 is out.")]) as provider:
        first, last = run_here(PAUSING + RESUMING, provider).splitlines()
    assert first.endswith(WANTED)
    assert last == "2.0 is out."


def test_run_is_decided_in_the_store_and_watched(run_here: RunHere) -> None:
    program = PAUSING + DECIDING + CONTINUING + WATCHING
    with strict_provider([PUBLISH, Reply("2.0 is out.")]) as provider:
        printed = run_here(program, provider).splitlines()
    assert printed[1] == "approve publish with {'version': '2.0'}"
    assert printed[2].startswith("Release version 2.0. (completed, ")


def test_recovery_resumes_a_run_that_was_cut_off(run_here: RunHere) -> None:
    with strict_provider([PUBLISH] * 3) as provider:
        show = "print([run.status for run in asyncio.run(agent.store.runs())])"
        program = f"{PAUSING}{CUT_OFF}{show}\n{RECOVERY}{show}"
        printed = run_here(program, provider).splitlines()
    assert printed[1:] == ["['running', 'paused']", "['paused', 'paused']"]


def test_state_of_a_run_is_rendered(run_here: RunHere) -> None:
    assert RUN_STATE.programs == {RENDERING}
    replies = [Reply(CallTool("add", {"a": 1, "b": 2})), Reply("3.")]
    with strict_provider(replies) as provider:
        printed = run_here(RENDERING, provider)
    for line in ("run: running", "[add writing None]", "[add written {'a': 1, 'b': 2}]", "3."):
        assert f"{line}\n" in printed
    assert printed.endswith("run: completed\n")


def test_conversation_of_a_user_is_continued(run_here: RunHere) -> None:
    with strict_provider([Reply("On its way."), Reply("At your door.")]) as provider:
        printed = run_here(USERS, provider).splitlines()
        assert len((provider.requests[1].body or {})["messages"]) == 3
    assert printed[1::2] == ["On its way.", "At your door."]


@pytest.mark.parametrize("program", [OBSERVING, APPROVING])
def test_claude_code_is_observed_and_approved(
    program: str, run_here: RunHere, monkeypatch: pytest.MonkeyPatch
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
    with strict_provider(Reply("unused")) as provider:
        assert "Write a song about bottles to song.txt.\n" in run_here(program, provider)


def test_server_answers_with_its_token(run_here: RunHere, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[httpx.Response] = []

    def serve(app: AgentServer, *, port: int) -> None:
        with Serving(app, port=0) as serving:
            assert port == 8000
            for token in ("a-token-of-some-length", "another"):
                url, headers = f"{serving.url}/api/converse", {"authorization": f"Bearer {token}"}
                answers.append(httpx.post(url, json={"message": "Hello"}, headers=headers))

    monkeypatch.setattr("argstream.server.serve", serve)
    monkeypatch.setenv("ARGSTREAM_TOKEN", "a-token-of-some-length")
    with strict_provider(Reply("Hello there.")) as provider:
        run_here(SERVING, provider)
    assert '"status":"completed"' in answers[0].text
    assert answers[1].status_code == 401


def test_stream_is_recorded_replayed_served_and_drawn(run_here: RunHere, tmp_path: Path) -> None:
    with strict_provider([Reply(WRITE), Reply("Hello there.")]) as provider:
        program = "".join(RECORDING).replace("https://api.anthropic.com", provider.url)
        printed = run_here(program, provider).splitlines()
    assert printed[:2] == [str(POEM), str([POEM])]
    assert {"ToolCallStarted", "TurnCompleted", "tool_use"} <= set(printed)
    assert printed[-1] == "Hello there."
    assert "write_file" in (tmp_path / "turn.svg").read_text(encoding="utf-8")
    assert [file.name for file in (tmp_path / "recordings").iterdir()] == ["0001-messages.rec"]


@pytest.mark.parametrize(
    ("program", "call", "shown"),
    [
        (SHOWING, WRITE, "Done."),
        (VIEWS, CallTool("save_note", {"title": "Build", "body": "# Green"}), "# Green"),
        (ASKING, CallTool("run_command", {"command": "make"}), "run it in a terminal"),
    ],
)
def test_agent_is_shown_in_a_terminal(
    program: str, call: CallTool, shown: str, run_here: RunHere
) -> None:
    with strict_provider([Reply(call), Reply("That is all.")]) as provider:
        printed = run_here(program, provider)
    assert shown in printed
    assert "That is all." in printed
