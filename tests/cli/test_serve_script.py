"""The script that ``argstream serve`` follows while no model is named: real runs of it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from argstream.agent import Agent, Approval, Approve, Deny
from argstream.cli.serve.script import ScriptedGuide
from argstream.cli.serve.tools import script_tools
from argstream.clients import ModelRequest
from argstream.events import (
    ApprovalRequested,
    Event,
    TextDelta,
    ThinkingStarted,
    ToolArgsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolOutputDelta,
)
from argstream.history import Message, TextPart
from tests.agent.following import complete, one, only

Decide = Callable[[ApprovalRequested], Approval]
AT_WORK = (ToolExecutionStarted, ToolCallCompleted)


def approve(request: ApprovalRequested) -> Approval:
    return Approve(digest=request.digest)


class Server:
    """What stays of a server when it is started anew: its store. Each run has another agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "files"
        self.folder.mkdir()
        self._store = folder / "runs.db"

    def said(self, prompt: str, decide: Decide = approve, conversation: str = "c") -> list[Event]:
        return complete(lambda: self.answer(prompt, decide, conversation))

    async def answer(self, prompt: str, decide: Decide, conversation: str) -> list[Event]:
        async with self._agent() as agent:
            run = agent.run_stream(prompt, await agent.conversation(conversation))
            told = [event async for event in run]
            decisions = {request.call_id: decide(request) for request in run.pending}
        async with self._agent() as another:
            return told + [event async for event in another.resume(run.run_id, decisions)]

    def _agent(self) -> Agent:
        tools = script_tools(self.folder, 0)
        return Agent(ScriptedGuide(0), tools, name="script", store=self._store)

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.folder.rglob("*") if path.is_file()}


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in only(events, TextDelta))


def test_it_says_that_it_is_a_script_and_what_was_said_to_it(server: Server) -> None:
    told = server.said("How are {you}?")
    assert "I am no model but a script" in text_of(told)
    assert "You wrote “How are {you}?”" in text_of(told)
    assert only(told, ThinkingStarted)


def test_two_tools_work_at_once_and_what_they_find_is_said(server: Server) -> None:
    told = server.said("Count these four words")
    names = [type(event).__name__ + event.name for event in told if isinstance(event, AT_WORK)]
    assert names.index("ToolExecutionStartedcount_primes") < names.index(
        "ToolCallCompletedcount_words"
    )
    assert "4 words and 22 characters. 1,229 primes are below 10,000." in text_of(told)
    assert len("".join(event.text for event in only(told, ToolOutputDelta)).splitlines()) == 5


def test_a_file_of_some_forty_lines_is_written_piece_by_piece_and_asked_about(
    server: Server,
) -> None:
    told = server.said("Go")
    request = one(told, ApprovalRequested)
    assert (request.name, request.arguments["path"]) == ("write_file", "primes.py")
    assert 35 <= len(request.arguments["content"].splitlines()) <= 45
    # Without a store, deltas are not coalesced.
    live = Agent(ScriptedGuide(0), script_tools(server.folder, 0)).run("Go", stream=True)
    pieces = [event for event in only(live, ToolArgsDelta) if event.name == "write_file"]
    assert max(len(event.delta) for event in pieces) <= 9


def test_what_is_approved_is_written_where_nothing_else_is(server: Server) -> None:
    told = server.said("Go")
    assert server.files() == {"primes.py": one(told, ApprovalRequested).arguments["content"]}
    assert "Thank you: created primes.py with 40 lines" in text_of(told)


def test_the_program_that_it_writes_works(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.said("Go")
    monkeypatch.setattr("sys.argv", ["primes.py", "30"])
    exec(compile(server.files()["primes.py"], "primes.py", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == " 2  3  5  7 11 13 17 19 23 29\n10 primes are below 30.\n"


def test_what_is_denied_is_not_written_and_the_reason_is_said(server: Server) -> None:
    told = server.said("Go", lambda _: Deny("not today"))
    assert server.files() == {}
    assert "You said no, so primes.py is not written" in text_of(told)
    assert "“not today”" in text_of(told)


def test_a_denial_needs_no_reason(server: Server) -> None:
    assert "and I need no reason." in text_of(server.said("Go", lambda _: Deny()))


def test_what_is_edited_is_what_is_written(server: Server) -> None:
    edited = {"path": "mine.txt", "content": "by a person"}
    told = server.said("Go", lambda _: Approve(arguments=edited))
    assert server.files() == {"mine.txt": "by a person"}
    assert "You changed it before you said yes" in text_of(told)


def test_an_edit_leads_to_nobody_elses_files(server: Server) -> None:
    edited = {"path": "../../elsewhere.txt", "content": "by a person"}
    told = server.said("Go", lambda _: Approve(arguments=edited))
    assert server.files() == {}
    assert "That did not work: ../../elsewhere.txt leads out of the folder" in text_of(told)


def test_the_next_message_has_other_words_and_another_file(server: Server) -> None:
    server.said("Go")
    told = server.said("And then?")
    assert "Still a script, and this is message 2 of our conversation." in text_of(told)
    assert one(told, ApprovalRequested).arguments["path"] == "picnic.md"
    assert "this is message 3" in text_of(server.said("And now?"))


def test_no_two_calls_of_a_conversation_have_one_id(server: Server) -> None:
    told = [*server.said("Go"), *server.said("And then?")]
    calls = [event.call_id for event in only(told, ToolCallStarted)]
    assert len(set(calls)) == len(calls) == 6


def test_conversations_at_once_know_nothing_of_each_other(server: Server) -> None:
    async def main() -> list[list[Event]]:
        prompts = [f"I am number {number}" for number in range(5)]
        return await asyncio.gather(
            *(server.answer(prompt, approve, conversation=prompt) for prompt in prompts)
        )

    for number, told in enumerate(complete(main)):
        assert "Hello!" in text_of(told)
        assert f"“I am number {number}”" in text_of(told)


def test_who_pastes_a_book_need_not_wait_for_it(server: Server) -> None:
    told = server.said("word " * 20_000)
    assert "the words at its beginning" in text_of(told)
    assert sum(len(event.delta) for event in only(told, ToolArgsDelta)) < 3_000


def test_files_of_old_runs_are_forgotten(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argstream.cli.serve.tools._MOST_RUNS", 2)
    for number in range(4):
        server.said("Go", conversation=f"c{number}")
    assert len(list(server.folder.iterdir())) == 2


def test_it_writes_about_300_characters_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("anyio.sleep", sleep)
    message = Message(role="user", parts=(TextPart(text="Hello"),))

    async def main() -> int:
        stream = ScriptedGuide(0.03).stream(ModelRequest(messages=(message,)))
        return sum([_characters(payload) async for payload in stream])

    characters = complete(main)
    assert 200 < characters / sum(waited) < 330


def _characters(payload: object) -> int:
    delta = payload.get("delta", {}) if isinstance(payload, dict) else {}
    return sum(len(delta.get(name, "")) for name in ("text", "thinking", "partial_json"))
