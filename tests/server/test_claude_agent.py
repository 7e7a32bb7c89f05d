"""The driver of Claude Code: the real program, with a mock provider."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions

from argstream import events as ev
from argstream.agent import Approval, Approve, Deny
from argstream.errors import UsageError
from argstream.models import CallTool
from argstream.runs import MemoryStore, RunInfo, Store
from argstream.server.claude_agent import ClaudeAgentDriver
from argstream.testing import MockProvider, Reply
from tests.agent.claude_code import claude_code_alone  # noqa: F401 - a fixture
from tests.agent.following import complete, one
from tests.support.provider_rules import strict_provider

pytestmark = pytest.mark.usefixtures("claude_code_alone")


class Machine:
    """A folder, a store and a provider; each run has its own driver, as in another process."""

    def __init__(self, folder: Path, provider: MockProvider) -> None:
        self.store: Store = MemoryStore()
        self._provider = provider
        self._options = ClaudeAgentOptions(
            cwd=folder,
            model="claude-opus-4-1",
            setting_sources=[],
            env={
                "ANTHROPIC_BASE_URL": provider.anthropic_url,
                "ANTHROPIC_API_KEY": "any",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
        )

    def driver(self) -> ClaudeAgentDriver:
        return ClaudeAgentDriver(self.store, self._options)

    async def say(
        self,
        prompt: str,
        decide: Callable[[ev.ApprovalRequested], Approval] | None = None,
        *,
        user: str = "",
    ) -> list[ev.Event]:
        """Run a prompt in one conversation to its end; decisions are made in the store."""
        driver = self.driver()
        run = driver.begin(prompt, await driver.conversation("c", user))
        events: list[ev.Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, ev.ApprovalRequested) and decide is not None:
                decisions = {event.call_id: decide(event)}
                await driver.check(run.run_id, decisions)
                await self.store.decide(run.run_id, decisions)
        return events

    def requests(self) -> list[str]:
        """The messages of each request to the model, as text."""
        return [str((request.body or {})["messages"]) for request in self._provider.requests]


def with_claude_code(
    tmp_path: Path, replies: Sequence[Reply], work: Callable[[Machine], Any]
) -> Any:
    folder = tmp_path / "project"
    folder.mkdir()
    with strict_provider(list(replies)) as provider:
        return complete(lambda: work(Machine(folder, provider)))


def test_conversation_continues_in_another_process(tmp_path: Path) -> None:
    async def work(machine: Machine) -> None:
        for prompt in ("My name is Ada.", "What is my name?", "Are you sure?"):
            one(await machine.say(prompt), ev.RunCompleted)
        first, second, third = machine.requests()
        assert "My name is Ada." in second
        assert "Nice to meet you." in third
        assert "What is my name?" in third
        assert "Ada." not in first.replace("My name is Ada.", "")

    with_claude_code(tmp_path, [Reply("Nice to meet you."), Reply("Ada."), Reply("Yes.")], work)


def test_conversation_of_another_user_is_not_continued(tmp_path: Path) -> None:
    async def work(machine: Machine) -> None:
        await machine.say("My secret is 42.", user="ada")
        await machine.say("Which secret do you know?", user="eve")
        assert ["42" in request for request in machine.requests()] == [True, False]

    with_claude_code(tmp_path, [Reply("I see."), Reply("None.")], work)


def test_calls_are_approved_edited_and_denied_through_the_store(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    writes = [
        CallTool("Write", {"file_path": str(folder / name), "content": "by the model"})
        for name in ("a.txt", "b.txt", "c.txt")
    ]

    def decide(request: ev.ApprovalRequested) -> Approval:
        match Path(request.arguments["file_path"]).name:
            case "a.txt":
                return Approve(digest=request.digest)
            case "b.txt":
                return Approve(arguments={**request.arguments, "content": "by a person"})
            case _:
                return Deny("two are enough")

    async def work(machine: Machine) -> list[ev.Event]:
        return await machine.say("Write three files.", decide)

    events = with_claude_code(tmp_path, [*map(Reply, writes), Reply("Done.")], work)
    assert one(events, ev.RunCompleted).result == "Done."
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert written == {"a.txt": "by the model", "b.txt": "by a person"}
    assert one(events, ev.ToolCallFailed).error == "it was denied: two are enough"


def test_run_is_stopped_by_another_process_and_its_conversation_continues(tmp_path: Path) -> None:
    async def work(machine: Machine) -> None:
        driver = machine.driver()
        run = driver.begin("Sleep.", await driver.conversation("c", ""))
        events: list[ev.Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, ev.ApprovalRequested):
                busy = await machine.driver().conversation("c", "")
                assert busy.run_id == run.run_id
                await machine.driver().stop(run.run_id, "enough")
        assert one(events, ev.RunStopped).reason == "enough"
        one(await machine.say("Are you there?"), ev.RunCompleted)
        assert "Sleep." in machine.requests()[-1]

    replies = [Reply(CallTool("Bash", {"command": "sleep 20 > x"})), *[Reply("I am here.")] * 3]
    with_claude_code(tmp_path, replies, work)


def test_prompt_cannot_read_files_or_run_slash_commands(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("sk-canary")

    async def work(machine: Machine) -> None:
        prompts = (f"Look at @{secret}", "/compact")
        for prompt in prompts:
            await machine.say(prompt)
        for prompt, request in zip(prompts, machine.requests(), strict=True):
            assert prompt in request
        assert "sk-canary" not in "".join(machine.requests())

    with_claude_code(tmp_path, [Reply("I may not."), Reply("What do you mean?")], work)


def test_conversation_whose_session_file_is_gone_fails(tmp_path: Path) -> None:
    async def work(machine: Machine) -> None:
        await machine.say("My name is Ada.")
        (tmp_path / "home").rename(tmp_path / "another home")
        with pytest.raises(UsageError, match="begin another conversation"):
            await machine.say("What is my name?")
        newest, _ = await machine.store.runs(conversation_id="c")
        failed = (await machine.store.read(newest.run_id))[-1].event
        assert isinstance(failed, ev.RunFailed)
        assert len(machine.requests()) == 1

    with_claude_code(tmp_path, [Reply("Hello.")], work)


def test_driver_refuses_what_claude_code_cannot_do() -> None:
    driver = ClaudeAgentDriver(MemoryStore())
    times: Any = {"created": 0.0, "updated": 0.0}
    run: Any = {"run_id": "run_1", "conversation_id": "talk", "status": "running", "seq": 1}
    assert driver.resume(RunInfo(agent=driver.name, **run, **times)) is None
    assert driver.name == "claude-code"

    async def approve_rule() -> None:
        with pytest.raises(UsageError, match="conversation"):
            await driver.check("run_1", {"call_1": Approve(always="rule")})

    complete(approve_rule)
    with pytest.raises(UsageError, match="CLAUDE_CONFIG_DIR"):
        ClaudeAgentDriver(MemoryStore(), ClaudeAgentOptions(env={"CLAUDE_CONFIG_DIR": "x"}))
