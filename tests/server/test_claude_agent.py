"""The driver of Claude Code: the real one, on a provider of our own."""

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
    """A folder, a store, and a provider; each run has a driver of its own, as another process."""

    def __init__(self, folder: Path, provider: MockProvider) -> None:
        self.folder = folder
        self.store: Store = MemoryStore()
        self.provider = provider

    def driver(self) -> ClaudeAgentDriver:
        options = ClaudeAgentOptions(
            cwd=self.folder,
            model="claude-opus-4-1",
            setting_sources=[],
            env={
                "ANTHROPIC_BASE_URL": self.provider.anthropic_url,
                "ANTHROPIC_API_KEY": "any",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
        )
        return ClaudeAgentDriver(self.store, options)

    async def said(
        self,
        prompt: str,
        decide: Callable[[ev.ApprovalRequested], Approval] | None = None,
        *,
        user: str = "",
    ) -> list[ev.Event]:
        """Say something in one conversation, to its end; somebody else decides, in the store."""
        driver = self.driver()
        run = driver.begin(prompt, await driver.conversation("c", user))
        told: list[ev.Event] = []
        async for event in run:
            told.append(event)
            if isinstance(event, ev.ApprovalRequested) and decide is not None:
                decisions = {event.call_id: decide(event)}
                await driver.check(run.run_id, decisions)
                await self.store.decide(run.run_id, decisions)
        return told

    def asked(self) -> list[str]:
        """What the model was told in each request, as one text."""
        return [str((request.body or {})["messages"]) for request in self.provider.requests]


def with_claude_code(
    tmp_path: Path, replies: Sequence[Reply], work: Callable[[Machine], Any]
) -> Any:
    folder = tmp_path / "project"
    folder.mkdir()
    with strict_provider(list(replies)) as provider:
        return complete(lambda: work(Machine(folder, provider)))


def test_a_conversation_goes_on_in_another_process(tmp_path: Path) -> None:
    async def work(machine: Machine) -> None:
        for prompt in ("My name is Ada.", "What is my name?", "Are you sure?"):
            one(await machine.said(prompt), ev.RunCompleted)
        first, second, third = machine.asked()
        assert "My name is Ada." in second
        assert "Nice to meet you." in third
        assert "What is my name?" in third
        assert "Ada." not in first.replace("My name is Ada.", "")

    with_claude_code(tmp_path, [Reply("Nice to meet you."), Reply("Ada."), Reply("Yes.")], work)


def test_nobody_goes_on_with_the_conversation_of_another_user(tmp_path: Path) -> None:
    async def work(machine: Machine) -> None:
        await machine.said("My secret is 42.", user="ada")
        await machine.said("Which secret do you know?", user="eve")
        assert "42" in machine.asked()[0]
        assert "42" not in machine.asked()[1]

    with_claude_code(tmp_path, [Reply("I see."), Reply("None.")], work)


def test_its_calls_are_approved_edited_and_denied_by_anybody(tmp_path: Path) -> None:
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
        return await machine.said("Write three files.", decide)

    told = with_claude_code(tmp_path, [*map(Reply, writes), Reply("Done.")], work)
    assert one(told, ev.RunCompleted).result == "Done."
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "a.txt": "by the model",
        "b.txt": "by a person",
    }
    assert one(told, ev.ToolCallFailed).error == "it was denied: two are enough"


def test_a_run_is_stopped_from_elsewhere_and_its_conversation_goes_on(tmp_path: Path) -> None:
    async def work(machine: Machine) -> None:
        driver = machine.driver()
        run = driver.begin("Sleep.", await driver.conversation("c", ""))
        told: list[ev.Event] = []
        async for event in run:
            told.append(event)
            if isinstance(event, ev.ApprovalRequested):
                busy = await machine.driver().conversation("c", "")
                assert busy.run_id == run.run_id
                await machine.driver().stop(run.run_id, "enough")
        assert one(told, ev.RunStopped).reason == "enough"
        one(await machine.said("Are you there?"), ev.RunCompleted)
        assert "Sleep." in machine.asked()[-1]

    replies = [Reply(CallTool("Bash", {"command": "sleep 20 > x"})), *[Reply("I am here.")] * 3]
    with_claude_code(tmp_path, replies, work)


def test_a_prompt_makes_it_read_no_file_and_obey_no_command(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("sk-canary")

    async def work(machine: Machine) -> None:
        await machine.said(f"Look at @{secret}")
        await machine.said("/compact")
        assert f"Look at @{secret}" in machine.asked()[0]
        assert "/compact" in machine.asked()[1]
        assert "sk-canary" not in "".join(machine.asked())

    with_claude_code(tmp_path, [Reply("I may not."), Reply("What do you mean?")], work)


def test_what_this_machine_does_not_know_any_more_is_not_made_up(tmp_path: Path) -> None:
    async def work(machine: Machine) -> None:
        await machine.said("My name is Ada.")
        (tmp_path / "home").rename(tmp_path / "another home")
        with pytest.raises(UsageError, match="begin another conversation"):
            await machine.said("What is my name?")
        newest, _ = await machine.store.runs(session_id="c")
        failed = (await machine.store.read(newest.run_id))[-1].event
        assert isinstance(failed, ev.RunFailed)
        assert len(machine.asked()) == 1

    with_claude_code(tmp_path, [Reply("Hello.")], work)


def test_nobody_can_go_on_with_what_a_process_has_begun() -> None:
    driver = ClaudeAgentDriver(MemoryStore())
    left = RunInfo(
        run_id="run_1",
        session_id="talk",
        agent=driver.name,
        status="running",
        seq=1,
        created=0.0,
        updated=0.0,
    )
    assert driver.resume(left) is None
    assert driver.name == "claude-code"


def test_an_approval_for_a_rule_is_refused() -> None:
    driver = ClaudeAgentDriver(MemoryStore())

    async def main() -> None:
        with pytest.raises(UsageError, match="session"):
            await driver.check("run_1", {"call_1": Approve(always="rule")})

    complete(main)


def test_where_sessions_are_is_said_for_the_whole_process() -> None:
    with pytest.raises(UsageError, match="CLAUDE_CONFIG_DIR"):
        ClaudeAgentDriver(MemoryStore(), ClaudeAgentOptions(env={"CLAUDE_CONFIG_DIR": "x"}))
