"""Runs of agents that run their tools themselves, in the same log as our own.

::

    store = open_store("runs.db")
    async for event in observe(query(prompt=prompt), prompt=prompt, store=store):
        ...

That is the Claude Agent SDK, or the lines of ``claude --output-format stream-json``. With an
``Observer`` a person can decide, from any process, whether a call may run.
"""

import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from argstream.adapters import AGENTS, ProtocolName
from argstream.agent._arguments import read_arguments
from argstream.agent._faces import AsyncClosing
from argstream.agent._run_log import RunLog, RunPosition
from argstream.agent.approvals import Approver
from argstream.agent.observing._asking import News
from argstream.agent.observing._drive import Course, Drive, not_an_agent
from argstream.agent.observing._observed import (
    Answer,
    Observed,
    is_observed,
    last_events,
    not_run,
    text_of_arguments,
)
from argstream.agent.observing._run import ObservedRun
from argstream.errors import RunTaken, UsageError
from argstream.events import Event
from argstream.log import Store
from argstream.stores import open_store

if TYPE_CHECKING:
    from claude_agent_sdk import PermissionResult, ToolPermissionContext

__all__ = ["ObservedRun", "Observer", "observe"]

_UNHEARD: Final = 30.0
"""How long an agent may take to tell of a call that it wants to run, in seconds."""


def observe(  # noqa: PLR0913 - by name, and once
    source: object,
    *,
    store: Store,
    prompt: str = "",
    agent: str = "claude-code",
    session_id: str = "",
    protocol: ProtocolName = "auto",
    user: str = "",
) -> ObservedRun:
    """Observe a run of an agent that runs its tools itself, and keep it in a store.

    ``source`` is what the agent says: what ``query()`` of the Claude Agent SDK gives, a
    ``ClaudeSDKClient`` that was asked something, or anything else that ``stream()`` reads, such as
    the lines of ``claude --output-format stream-json``. ``prompt`` and ``agent`` are for the log:
    what it was told, and who it is. Runs with the same ``session_id`` and ``user`` are one
    conversation.
    """
    given: object = store
    if isinstance(given, str | Path):
        raise UsageError("observe takes a store that is open, which is yours to close: open_store")
    observer = Observer(store=store, agent=agent)
    return observer.observe(source, prompt, session_id=session_id, protocol=protocol, user=user)


class Observer(AsyncClosing):
    """Observes runs of an agent that runs its tools itself, and has people asked about its calls.

    ::

        observer = Observer(store="runs.db")
        options = ClaudeAgentOptions(can_use_tool=observer.can_use_tool)
        async for event in observer.observe(query(prompt=prompt, options=options), prompt):
            ...

    One observer can observe any number of runs at once.
    """

    def __init__(
        self,
        *,
        store: Store | str | Path,
        agent: str = "claude-code",
        approver: Approver | None = None,
        approval_timeout: float | None = None,
        claim_seconds: float = 15.0,
    ) -> None:
        """Observe into a store: a name of an SQLite file, an address, or what ``open_store`` gives.

        ``approver`` is asked about each call that the agent wants a permission for; others can
        decide in the store, with ``Store.decide``, and the first one counts. What nobody has
        decided after ``approval_timeout`` seconds is denied.
        """
        if approval_timeout is not None and approval_timeout <= 0:
            raise UsageError(f"approval_timeout is seconds, more than 0, not {approval_timeout}")
        if claim_seconds <= 0:
            raise UsageError(f"claim_seconds is more than 0, not {claim_seconds}")
        self.store = open_store(store)
        self.agent = agent
        self._owns_store = isinstance(store, str | Path)
        self._approver = approver
        self._approval_seconds = approval_timeout
        self._claim_seconds = claim_seconds
        self._news = News()
        self._drives: weakref.WeakSet[Drive] = weakref.WeakSet()

    def observe(
        self,
        source: object,
        prompt: str = "",
        *,
        session_id: str = "",
        protocol: ProtocolName = "auto",
        user: str = "",
    ) -> ObservedRun:
        """Observe a run: see the function ``observe``."""
        if protocol not in ("auto", "argstream", *AGENTS):
            raise not_an_agent(protocol)
        run_id = f"run_{uuid4().hex}"
        course = Course(
            source, protocol, prompt, self._news, self._approver, self._approval_seconds, user
        )
        drive = Drive(course, Observed(run_id), self._log(run_id, session_id))
        self._drives.add(drive)
        return ObservedRun(drive)

    async def can_use_tool(
        self, name: str, arguments: dict[str, Any], context: "ToolPermissionContext"
    ) -> "PermissionResult":
        """Have somebody decide whether a call may run: for ``ClaudeAgentOptions``.

        Nothing runs without a decision. What was approved is what runs: the agent is given a fresh
        parse of the text that the digest of the request is of.
        """
        call_id = context.tool_use_id or ""
        text = text_of_arguments(arguments)
        if text is None:
            return _permission(name, not_run("its arguments are no JSON object"), interrupt=False)
        await self._news.until(lambda: self._drive_of(call_id, text) is not None, _UNHEARD)
        drive = self._drive_of(call_id, text)
        if drive is None:
            answer = not_run("it is not clear which run makes this call")
        else:
            reason = context.decision_reason or context.title or f"{self.agent} asks"
            answer = await drive.ask(call_id, text, reason)
        return _permission(name, answer, interrupt=drive is not None and drive.observed.is_stopped)

    def _drive_of(self, call_id: str, text: str) -> Drive | None:
        """Give the run that makes a call; ids may repeat in runs that are observed at once."""
        drives = [drive for drive in self._drives if not drive.observed.is_over]
        found = [drive for drive in drives if drive.observed.knows(call_id)]
        if len(drives) > 1:
            found = [drive for drive in found if drive.observed.has_told(call_id, text)]
        return found[0] if len(found) == 1 else None

    async def stop_async(self, run_id: str, reason: str = "") -> list[Event]:
        """End a run, in whatever process it is observed.

        If nobody observes it any more, since that process has ended, its last events are written
        here, and given.
        """
        await self.store.stop(run_id, reason)
        log = self._log(run_id, "")
        try:
            records = await log.take_up(0)
        except RunTaken:
            return []  # who observes it has been told
        try:
            told = [record.event for record in records]
            if not is_observed(told):
                raise UsageError(f"the run {run_id} is not an observed one: Agent.stop ends it")
            events = last_events(run_id, told, (await log.posted()).stop_reason or reason)
            await log.write(events)
        finally:
            await log.release()
        return events

    async def aclose(self) -> None:
        """Close the store, if it is our own."""
        if self._owns_store:
            await self.store.aclose()

    def _log(self, run_id: str, session_id: str) -> RunLog:
        session_id = session_id or f"session_{uuid4().hex}"
        position = RunPosition(run_id, session_id, self.agent)
        return RunLog(self.store, position, self._claim_seconds)


def _permission(name: str, answer: Answer, *, interrupt: bool) -> "PermissionResult":
    """Give an answer as the SDK wants it, which is who asks."""
    from claude_agent_sdk import (  # noqa: PLC0415 - who calls this has it
        PermissionResultAllow,
        PermissionResultDeny,
        PermissionUpdate,
    )
    from claude_agent_sdk.types import PermissionRuleValue  # noqa: PLC0415 - as above

    if answer.text is None:
        return PermissionResultDeny(message=answer.reason, interrupt=interrupt)
    updates = None
    if answer.always == "session":
        rules = [PermissionRuleValue(tool_name=name)]
        updates = [
            PermissionUpdate("addRules", rules=rules, behavior="allow", destination="session")
        ]
    return PermissionResultAllow(
        updated_input=read_arguments(answer.text), updated_permissions=updates
    )
