"""Runs of Claude Code for the server: started here, by the Claude Agent SDK, and observed.

Claude Code runs its tools itself, and asks before it does what could do harm: that is told as
``ApprovalRequested``, and a decision in the store counts, from any process.

What was said before is in a session of Claude Code's own, in a file on this machine. The session of
a run has an id that follows from the run's; the next run of a conversation is a fork of the newest
one that the store has. So all that must be known is in the store, and a conversation goes on after
its process has ended; one that was begun on another machine does not.
"""

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Final, Self
from uuid import UUID, uuid5

from anyio import to_thread

from argstream.agent import Conversation, Observer
from argstream.errors import MissingExtraError, UsageError
from argstream.runs._records import Approve, Decisions, RunInfo
from argstream.runs._store import Store
from argstream.server._runs import DrivenRun

try:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Message, get_session_info
    from claude_agent_sdk.types import SystemPromptPreset
except ModuleNotFoundError:
    raise MissingExtraError("claude", "Claude Code") from None

__all__ = ["ClaudeAgentDriver"]

_SESSIONS: Final = UUID("5b1f0c1e-6f4e-4f0e-9d0a-6f2d3a1c8e57")
"""What the ids of sessions are made in, of the ids of runs."""
_EARLIER: Final = 50
"""How many runs of a conversation are looked at for one that has a session."""
_CONFIG: Final = "CLAUDE_CONFIG_DIR"


class ClaudeAgentDriver:
    """Drives runs of Claude Code, each in a process of its own."""

    def __init__(
        self, store: Store | str | Path, options: ClaudeAgentOptions | None = None
    ) -> None:
        """Run Claude Code with these options, except for those that the log and approvals need.

        ``cwd`` is the folder that it works in. Each call that its settings do not allow is asked
        about, since ``permission_mode`` is ``default`` unless another is given. A prompt is taken
        as it is written: no command, and no file that it would have read.
        """
        options = options or ClaudeAgentOptions()
        if _CONFIG in options.env:
            raise UsageError(
                f"{_CONFIG} says where sessions are found again: set it for the whole process, "
                "not in the env of the options"
            )
        self._observer = Observer(store=store)
        self._options = replace(
            options,
            can_use_tool=self._observer.can_use_tool,
            permission_mode=options.permission_mode or "default",
            include_partial_messages=True,
            verbatim_prompts=True,
        )

    @classmethod
    def in_folder(
        cls, store: Store | str | Path, folder: Path, *, instructions: str = "", max_turns: int = 50
    ) -> Self:
        """Work in a folder, with the Claude Code settings of the user who starts the server."""
        prompt = SystemPromptPreset(type="preset", preset="claude_code")
        if instructions:
            prompt["append"] = instructions
        return cls(store, ClaudeAgentOptions(cwd=folder, system_prompt=prompt, max_turns=max_turns))

    @property
    def name(self) -> str:
        """The value of ``RunInfo.agent`` of its runs."""
        return self._observer.agent

    @property
    def store(self) -> Store:
        """The store of its runs."""
        return self._observer.store

    def begin(self, prompt: str, conversation: Conversation) -> DrivenRun:
        """Return a run that starts Claude Code when its first event is requested."""
        source = _ClaudeCode(self, prompt, conversation)
        run = self._observer.observe(
            source, prompt, conversation_id=conversation.id, user=conversation.user
        )
        source.run_id = run.run_id
        return run

    def resume(self, info: RunInfo) -> DrivenRun | None:
        """Return None: a run of Claude Code cannot continue in another process."""
        return None

    async def conversation(self, id: str, user: str) -> Conversation:
        """Return a conversation. Its history is known to Claude Code only."""
        conversation = Conversation(id=id, user=user)
        newest = await self.store.runs(conversation_id=id, user=user, limit=1)
        if newest and not newest[0].is_over:
            conversation.run_id = newest[0].run_id
        return conversation

    async def check(self, run_id: str, decisions: Decisions) -> None:
        """Refuse decisions that mean nothing here. Claude Code checks edited arguments itself."""
        for decision in decisions.values():
            if isinstance(decision, Approve) and decision.always == "rule":
                raise UsageError(
                    'no rule asks about this call: approve it always for the "conversation"'
                )

    async def stop(self, run_id: str, reason: str) -> None:
        """Stop a run, in whatever process it is. If that process is gone, write its end."""
        await self._observer.stop_async(run_id, reason)

    async def aclose(self) -> None:
        """Close the store, if it is our own."""
        await self._observer.aclose()

    async def options_for(self, run_id: str, conversation: Conversation) -> ClaudeAgentOptions:
        """Return the options for a run that continues the newest session on this machine."""
        runs = await self.store.runs(
            conversation_id=conversation.id, user=conversation.user, limit=_EARLIER
        )
        earlier = [run for run in runs if run.agent == self.name and run.run_id != run_id]
        session = _session_of(run_id)
        for run in earlier:
            before = _session_of(run.run_id)
            if await to_thread.run_sync(self._is_here, before):
                return replace(self._options, session_id=session, resume=before, fork_session=True)
        if any(run.status == "completed" for run in earlier):
            raise UsageError(
                "what was said before in this conversation is not known to the Claude Code of this "
                "machine and folder: begin another conversation"
            )
        return replace(self._options, session_id=session)

    def _is_here(self, session: str) -> bool:
        directory = str(Path(self._options.cwd or ".").absolute())
        return get_session_info(session, directory) is not None


class _ClaudeCode:
    """The source of one run: starts Claude Code when it is read, and ends it after that."""

    def __init__(self, driver: ClaudeAgentDriver, prompt: str, conversation: Conversation) -> None:
        self.run_id = ""
        self._driver = driver
        self._prompt = prompt
        self._conversation = conversation
        self._client: ClaudeSDKClient | None = None

    async def receive_response(self) -> AsyncGenerator[Message, None]:
        options = await self._driver.options_for(self.run_id, self._conversation)
        async with ClaudeSDKClient(options) as self._client:
            await self._client.query(self._prompt)
            async for message in self._client.receive_response():
                yield message

    async def interrupt(self) -> None:
        if self._client is not None:
            await self._client.interrupt()


def _session_of(run_id: str) -> str:
    return str(uuid5(_SESSIONS, run_id))
