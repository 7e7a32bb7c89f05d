"""The driver of Claude Code: the real program, with a mock provider."""

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from claude_agent_sdk import ClaudeAgentOptions

from argstream import events as ev
from argstream.agent import Approval, Approve, Deny
from argstream.errors import UsageError
from argstream.models import CallTool
from argstream.runs import MemoryStore, RunInfo, Store
from argstream.server.claude_agent import ClaudeAgentDriver
from argstream.testing import MockProvider, Reply
from tests.agent.following import complete, one, only
from tests.agent.observing import check_observed
from tests.support import program_is_missing
from tests.support.provider_rules import strict_provider


@pytest.fixture(autouse=True)
def _claude_code_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Skip or fail if Claude Code is missing. It sees no settings of the developer."""
    program = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    if not program.exists():
        program_is_missing("claude-agent-sdk contains no Claude Code for this system")
    for name in list(os.environ):
        if name != "PATH":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


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

    async def say(self, prompt: str, *, user: str = "") -> list[ev.Event]:
        """Run a prompt in one conversation to its end."""
        driver = self.driver()
        run = driver.begin(prompt, await driver.conversation("c", user))
        return [event async for event in run]

    def requests(self) -> list[str]:
        """The messages of each request to the model, as text."""
        return [str((request.body or {})["messages"]) for request in self._provider.requests]


def with_claude_code(
    folder: Path, replies: Sequence[Reply], work: Callable[[Machine], Awaitable[None]]
) -> None:
    folder.mkdir()
    with strict_provider(list(replies)) as provider:
        complete(lambda: work(Machine(folder, provider)))


def test_conversation_continues_in_another_process_for_its_user_only(tmp_path: Path) -> None:
    """A prompt is text: Claude Code neither reads a file nor runs a command that it names."""
    file = tmp_path / "secret.txt"
    file.write_text("sk-canary")
    prompts = (f"My name is Ada. Look at @{file}", "/compact", "What is my name?")

    async def work(machine: Machine) -> None:
        for prompt in prompts:
            one(await machine.say(prompt, user="ada"), ev.RunCompleted)
        await machine.say("Which name do you know?", user="eve")
        first, second, third, other = machine.requests()
        for prompt, request in zip(prompts, (first, second, third), strict=True):
            assert prompt in request
        assert prompts[0] in second
        for earlier in (*prompts[:2], "Nice to meet you."):
            assert earlier in third
        assert "Ada" not in other
        assert "sk-canary" not in first + second + third

        (tmp_path / "home").rename(tmp_path / "another home")  # with the files of the sessions
        with pytest.raises(UsageError, match="Start another conversation"):
            await machine.say("What is my name?", user="ada")
        newest, *_ = await machine.store.runs(conversation_id="c")
        failed = (await machine.store.read(newest.run_id))[-1].event
        assert isinstance(failed, ev.RunFailed)
        assert len(machine.requests()) == 4

    replies = [Reply("Nice to meet you."), Reply("I may not."), Reply("Ada."), Reply("None.")]
    with_claude_code(tmp_path / "project", replies, work)


def test_calls_of_a_sub_agent_are_decided_and_runs_stopped_in_the_store(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    task = {"description": "files", "prompt": "Write.", "subagent_type": "general-purpose"}
    writes = [
        CallTool("Write", {"file_path": str(folder / name), "content": "by the model"})
        for name in ("a.txt", "b.txt", "c.txt")
    ]

    async def work(machine: Machine) -> None:
        driver = machine.driver()
        run = driver.begin("Write three files, and sleep.", await driver.conversation("c", ""))
        events: list[ev.Event] = []
        async for event in run:
            events.append(event)
            if not isinstance(event, ev.ApprovalRequested):
                continue
            decision: Approval
            match Path(event.arguments.get("file_path", "")).name:
                case "a.txt":
                    decision = Approve(digest=event.digest)
                case "b.txt":
                    decision = Approve(arguments={**event.arguments, "content": "by a person"})
                case "c.txt":
                    decision = Deny("two are enough")
                case _:
                    busy = await machine.driver().conversation("c", "")
                    assert busy.run_id == run.run_id
                    await machine.driver().stop(run.run_id, "enough")
                    continue
            (await driver.load(run.run_id)).check({event.call_id: decision})
            await machine.store.decide(run.run_id, {event.call_id: decision})
        check_observed(events)
        written = {path.name: path.read_text() for path in folder.glob("*.txt")}
        assert written == {"a.txt": "by the model", "b.txt": "by a person"}
        sub_agent, *calls = only(events, ev.ToolCallStarted)
        parents = [call.parent_id for call in calls if call.name == "Write"]
        assert parents == [sub_agent.call_id] * 3
        denied, *_ = only(events, ev.ToolCallFailed)
        assert denied.error == "it was denied: two are enough"
        assert one(events, ev.RunStopped).reason == "enough"
        assert one(await machine.say("Are you there?"), ev.RunCompleted).result == "I am here."
        assert "Write three files, and sleep." in machine.requests()[-1]

    sleep = CallTool("Bash", {"command": "sleep 20 > x"})
    begin = CallTool("Agent", {**task, "run_in_background": False})
    replies = [*map(Reply, [begin, *writes]), Reply("Two are written.")]
    replies += [Reply(sleep), *[Reply("I am here.")] * 3]
    with_claude_code(folder, replies, work)


def test_driver_refuses_what_claude_code_cannot_do() -> None:
    driver = ClaudeAgentDriver(MemoryStore())
    times: Any = {"created": 0.0, "updated": 0.0}
    run: Any = {"run_id": "run_1", "conversation_id": "talk", "status": "running", "seq": 1}
    assert driver.resume(RunInfo(agent=driver.name, **run, **times)) is None
    assert driver.name == "claude-code"

    with pytest.raises(UsageError, match="CLAUDE_CONFIG_DIR"):
        ClaudeAgentDriver(MemoryStore(), ClaudeAgentOptions(env={"CLAUDE_CONFIG_DIR": "x"}))
