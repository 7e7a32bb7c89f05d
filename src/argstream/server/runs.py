"""The runs of a server: begun, decided on and ended, in whatever process they are."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec.structs import replace

from argstream.agent import Conversation
from argstream.decisions import Approval, Approve, Decisions
from argstream.errors import UsageError
from argstream.events import ApprovalRequested, RunStatus
from argstream.log import RunInfo, Store
from argstream.server._driving import Driving
from argstream.server._edits import keeping
from argstream.server._look_out import LookOut
from argstream.server._prompts import Prompts
from argstream.server.drivers import Driver
from argstream.server.problems import Problem
from argstream.snapshot_events import pending_of

__all__ = ["Runs", "other_request"]

_AT_ONCE: Final = 10
"""How many runs of a conversation may have been begun at the same moment."""

T = TypeVar("T")
logger = logging.getLogger("argstream.server")


class Runs:
    """Starts runs, and sees to it that they go on."""

    def __init__(self, driver: Driver, *, look_out_seconds: float, max_running: int) -> None:
        self._driver = driver
        self._driving = Driving(driver, max_running)
        self._look_out = LookOut(driver.store, self._driving, look_out_seconds)
        self.prompts = Prompts(driver.store)
        """What they were asked."""
        self._newest: WeakKeyDictionary[Conversation, str] = WeakKeyDictionary()  # when it was read
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    @property
    def store(self) -> Store:
        """Where the runs are."""
        return self._driver.store

    @property
    def agent(self) -> str:
        """The name of the agent whose runs these are."""
        return self._driver.name

    def look_out(self) -> None:
        """Begin to look for runs that other processes have left, unless that goes on already."""
        self._look_out.begin()

    def open(self) -> None:
        """Begin, also after an end."""
        self._driving.open()
        self.look_out()

    async def aclose(self) -> None:
        """Leave the runs to other processes, and close what is open."""
        await self._look_out.aclose()
        await self._driving.aclose()
        await self._driver.aclose()

    # What is known

    async def info(self, run_id: str, user: str) -> RunInfo:
        """Say what is known of a run.

        One of somebody else, or of another agent that uses the store, is as unknown as one that
        never was: what was approved for one must not be run by another.
        """
        unknown = Problem(404, "unknown-run", "there is no such run here")
        try:
            info = await self.store.info(run_id)
        except UsageError:  # it is not there, or nothing could have such an id
            raise unknown from None
        if info.user != user or not self._is_ours(info):
            raise unknown
        return info

    async def of_user(
        self,
        user: str,
        *,
        limit: int,
        status: RunStatus | None = None,
        conversation_id: str | None = None,
    ) -> list[RunInfo]:
        """List the runs of a user, those with the newest records first."""
        wanted = limit
        while True:
            found = await self.store.runs(
                status=status, session_id=conversation_id, user=user, limit=wanted
            )
            ours = [info for info in found if self._is_ours(info)]
            if len(ours) >= limit or len(found) < wanted:
                return ours[:limit]
            wanted *= 4

    async def newest(self, conversation_id: str, user: str) -> RunInfo | None:
        """Give the newest run of a conversation."""
        found = await self.of_user(user, limit=1, conversation_id=conversation_id)
        return found[0] if found else None

    def _is_ours(self, info: RunInfo) -> bool:
        return info.agent == self.agent

    async def conversation(self, conversation_id: str, user: str) -> Conversation:
        """Give a conversation that can go on, with what was said before."""
        newest = await self.store.runs(session_id=conversation_id, user=user, limit=1)
        if newest and not self._is_ours(newest[0]):
            raise Problem(
                409, "other-agent", "this conversation is one with another agent: name another"
            )
        conversation = await self._driver.conversation(conversation_id, user)
        if conversation.run_id is not None:
            raise _busy(conversation.run_id)
        if newest:
            self._newest[conversation] = newest[0].run_id
        return conversation

    async def pending(self, run_id: str) -> list[ApprovalRequested]:
        """Give what somebody must decide on before a run can go on."""
        return [*pending_of((await self.store.snapshot(run_id)).event)]

    # What is done

    async def start(
        self,
        prompt: str,
        conversation: Conversation,
        rested: Callable[[], None],
    ) -> str:
        """Begin a run, and give its id when it is in the store; it goes on by itself.

        ``rested`` is called when it is not driven here any more: it is over, or waits for a person,
        or could not be begun.
        """
        return await _finished(self._start(prompt, conversation, rested))

    async def _start(
        self, prompt: str, conversation: Conversation, rested: Callable[[], None]
    ) -> str:
        try:
            async with self._turn(conversation):
                await self._require_unchanged(conversation)
                if self._driving.is_full:
                    raise _full("come again")
                run = self._driver.begin(prompt, conversation)
                await self._driving.begin(run, rested)
                await self._require_first(run.run_id, conversation)
                self.prompts.keep(run.run_id, prompt)
        except BaseException:
            rested()
            raise
        return run.run_id

    async def _require_unchanged(self, conversation: Conversation) -> None:
        """Refuse to go on with what is not the newest that was said in a conversation."""
        newest = await self.newest(conversation.id, conversation.user)
        if newest is None:
            return
        if not newest.is_over:
            raise _busy(newest.run_id)
        if self._newest.get(conversation, newest.run_id) != newest.run_id:
            raise Problem(
                409, "conversation-changed", "another message was quicker: send this one again"
            )

    async def _require_first(self, run_id: str, conversation: Conversation) -> None:
        """Of runs that were begun at the same moment in several processes, let the first go on."""
        found = await self.store.runs(
            session_id=conversation.id, user=conversation.user, limit=_AT_ONCE
        )
        going = [info for info in found if not info.is_over]
        first = min(going, key=lambda info: (info.created, info.run_id), default=None)
        if first is not None and first.run_id != run_id:
            await self.stop(run_id, "another message was quicker")
            raise _busy(first.run_id)

    def _turn(self, conversation: Conversation) -> asyncio.Lock:
        """Give what keeps two messages that come at once from beginning a run each."""
        return self._turns.setdefault((conversation.user, conversation.id), asyncio.Lock())

    async def decide(self, run_id: str, decisions: Decisions) -> None:
        """Decide on calls that somebody is asked about, and see to it that the run goes on.

        Raises Problem 403 for what nobody is asked about, any more or at all; the first decision
        on a call counts. Edited arguments must be valid.
        """
        asked = await self._require_pending(run_id, decisions)
        if self._driving.is_full:
            raise _full("decide again")
        kept = {
            call_id: _keeping_unchanged(decision, asked[call_id])
            for call_id, decision in decisions.items()
        }
        await _finished(self._decide(run_id, kept))

    async def _decide(self, run_id: str, decisions: Decisions) -> None:
        try:
            await self._driver.check(run_id, decisions)
            await self.store.decide(run_id, decisions)
        except UsageError:
            await self._require_pending(run_id, decisions)  # somebody may have been quicker
            raise
        await self._driving.go_on(run_id)

    async def _require_pending(
        self, run_id: str, decisions: Decisions
    ) -> Mapping[str, ApprovalRequested]:
        """Give what somebody is asked about by call; all that is decided on must be among it."""
        waiting = {request.call_id: request for request in await self.pending(run_id)}
        for call_id, decision in decisions.items():
            request = waiting.get(call_id)
            if request is None:
                raise Problem(403, "not-pending", f"nobody is asked about the call {call_id!r}")
            if request.expires_at is not None and request.expires_at <= time.time():
                raise Problem(403, "expired", f"it is too late to decide on the call {call_id!r}")
            if isinstance(decision, Approve) and decision.digest != request.digest:
                raise other_request(call_id)
        return waiting

    async def forget(self, run_id: str) -> None:
        """Delete a run that nobody drives."""
        await self.store.delete(run_id)
        self.prompts.forget(run_id)

    async def stop(self, run_id: str, reason: str = "") -> None:
        """End a run; if it has ended meanwhile, all is as wanted."""
        await _finished(self._stop(run_id, reason))

    async def _stop(self, run_id: str, reason: str) -> None:
        try:
            await self._driver.stop(run_id, reason)
        except UsageError:
            if not (await self.store.info(run_id)).is_over:
                raise


def _keeping_unchanged(decision: Approval, request: ApprovalRequested) -> Approval:
    if isinstance(decision, Approve) and decision.arguments is not None:
        return replace(decision, arguments=keeping(request.arguments, decision.arguments))
    return decision


async def _finished(work: Coroutine[Any, Any, T]) -> T:
    """Have something done to its end, also if who asked for it goes away meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_is_told_to_nobody)
        raise


def _is_told_to_nobody(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("what a client asked for who has left could not be done: %s", error)


def _full(what_to_do: str) -> Problem:
    return Problem(
        503,
        "too-many-runs",
        f"as many runs go on here as may (max_running): {what_to_do} in a moment",
        {"retry-after": "5"},
    )


def _busy(run_id: str) -> Problem:
    return Problem(
        409,
        "conversation-busy",
        f"this conversation has a run that is not over ({run_id}): wait for its end, decide what "
        "it waits for, or stop it",
    )


def other_request(call_id: str) -> Problem:
    """Say that a decision is about something else than what is asked about."""
    return Problem(
        403,
        "other-request",
        f"the digest is not that of the request for the call {call_id!r}: look at that, and decide "
        "anew",
    )
