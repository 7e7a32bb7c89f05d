"""Runs of Claude Code for the server: started by the Claude Agent SDK, and observed.

Claude Code runs its own tools, and asks for permission before some of them. Such a call becomes an
``ApprovalRequested``, and any process can decide in the store.

Claude Code keeps the history of a conversation in a session file on this machine. The ID of a
session is derived from the ID of its run. The next run of a conversation forks the session of the
newest run in the store. So a conversation continues after its process has ended, but not on another
machine.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self
from uuid import UUID, uuid5

from argstream.agent import Conversation, Observer, Run
from argstream.agent.observer import ObserverLoop
from argstream.errors import MissingExtraError, UsageError
from argstream.runs._records import RunInfo
from argstream.runs._state import RunState
from argstream.runs._store import Store
from argstream.server._runs import LoadedRun

try:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Message, get_session_info
    from claude_agent_sdk.types import SystemPromptPreset
except ModuleNotFoundError:
    raise MissingExtraError("claude", "Claude Code") from None

__all__ = ["ClaudeAgentDriver"]

_SESSIONS: Final = UUID("5b1f0c1e-6f4e-4f0e-9d0a-6f2d3a1c8e57")
"""The UUID namespace of session IDs, which are derived from run IDs."""
_MAX_EARLIER: Final = 50
"""How many runs of a conversation are checked for a session."""
_CONFIG: Final = "CLAUDE_CONFIG_DIR"


class ClaudeAgentDriver:
    """Drives runs of Claude Code, each in a process of its own."""

    def __init__(
        self, store: Store | str | Path, options: ClaudeAgentOptions | None = None
    ) -> None:
        """Run Claude Code with these options, except for those that the log and approvals need.

        ``cwd`` is the folder that it works in. ``permission_mode`` is ``default`` unless another is
        set, so each call that the settings of Claude Code do not allow needs an approval. Prompts
        are sent verbatim: slash commands and file references in them have no effect.
        """
        options = options or ClaudeAgentOptions()
        if _CONFIG in options.env:
            raise UsageError(
                f"{_CONFIG} must not be in the env of the options, because this process reads the "
                "sessions too. Set it for the whole process"
            )
        self._observer = Observer(store=store)
        self._options = replace(
            options,
            can_use_tool=self._observer.can_use_tool,
            permission_mode=options.permission_mode or "default",
            include_partial_messages=True,
            verbatim_prompts=True,
        )
        self.name: str = self._observer.agent
        """The value of ``RunInfo.agent`` of its runs."""
        self.model: str = options.model or "Claude Code"
        """The name that the page shows for the model."""
        self.tools: Sequence[str] = ()
        """Empty: Claude Code has many tools, and its settings choose among them."""
        self.can_replace: bool = False
        """False: only Claude Code has the history."""
        self.store: Store = self._observer.store
        """The store of its runs."""

    @classmethod
    def in_folder(
        cls, store: Store | str | Path, folder: Path, *, instructions: str = "", max_turns: int = 50
    ) -> Self:
        """Work in a folder, with the Claude Code settings of the user who starts the server."""
        prompt = SystemPromptPreset(type="preset", preset="claude_code")
        if instructions:
            prompt["append"] = instructions
        return cls(store, ClaudeAgentOptions(cwd=folder, system_prompt=prompt, max_turns=max_turns))

    def begin(self, prompt: str, conversation: Conversation) -> Run:
        """Return a run that starts Claude Code when its first event is requested."""
        source = _ClaudeCode(self, prompt, conversation)
        run = self._observer.observe(
            source, prompt, conversation_id=conversation.id, user=conversation.user
        )
        source.run_id = run.run_id
        return run

    def resume(self, info: RunInfo) -> Run | None:
        """Return None: a run of Claude Code cannot continue in another process."""
        return None

    async def conversation(self, id: str, user: str) -> Conversation:
        """Return a conversation without messages: only Claude Code has its history."""
        conversation = Conversation(id=id, user=user)
        newest = await self.store.runs(conversation_id=id, user=user, limit=1)
        if newest and not newest[0].is_over:
            conversation.run_id = newest[0].run_id
        return conversation

    async def load(self, run_id: str) -> LoadedRun:
        """Read a run from the store."""
        state = RunState.from_records(await self.store.read(run_id), arguments="off")
        return LoadedRun(state, ObserverLoop(run_id, state).check)

    async def stop(self, run_id: str, reason: str) -> None:
        """Stop a run, whichever process drives it. If that process has died, write its end."""
        await self._observer.stop_async(run_id, reason)

    async def aclose(self) -> None:
        """Close the store, if it was opened here."""
        await self._observer.aclose()

    async def options_for(self, run_id: str, conversation: Conversation) -> ClaudeAgentOptions:
        """Return the options for a run that continues the newest session on this machine."""
        runs = await self.store.runs(
            conversation_id=conversation.id, user=conversation.user, limit=_MAX_EARLIER
        )
        earlier = [run for run in runs if run.agent == self.name and run.run_id != run_id]
        session = _session_of(run_id)
        for run in earlier:
            before = _session_of(run.run_id)
            if await asyncio.to_thread(self._has_session, before):
                return replace(self._options, session_id=session, resume=before, fork_session=True)
        if any(run.status == "completed" for run in earlier):
            raise UsageError(
                "Claude Code has no session of this conversation for this folder on this machine. "
                "Start another conversation"
            )
        return replace(self._options, session_id=session)

    def _has_session(self, session: str) -> bool:
        directory = str(Path(self._options.cwd or ".").absolute())
        return get_session_info(session, directory) is not None


class _ClaudeCode:
    """The source of one run: starts Claude Code when it is read, and ends it afterwards."""

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
