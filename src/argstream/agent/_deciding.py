"""Who decides on calls: somebody who is asked in place, who follows the run, or anybody else.

If the run has a log, all of them decide in its store, where the first one counts, and the run hears
of it from there.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, NamedTuple

import anyio
from anyio.abc import TaskGroup

from argstream.agent._effects import AskPerson, Step
from argstream.agent._machine import Machine
from argstream.agent._questions import Questions
from argstream.agent._run_log import RunLog
from argstream.agent.approvals import Approval, Approve, Approver, Decisions, Deny
from argstream.errors import AlreadyDecided, UsageError
from argstream.events import ApprovalRequested
from argstream.log import Posts

__all__ = ["Deciding", "usable_of"]

_CLOCKS_DIFFER: Final = 0.01

logger = logging.getLogger("argstream.agent")


class _Unposted(NamedTuple):
    decision: Approval
    counts: "asyncio.Future[None]"
    """Is done when it is known whether it counts."""


class Deciding:
    """Takes decisions to the machine; what follows is given to ``act``."""

    def __init__(
        self,
        machine: Machine,
        act: Callable[[Step], None],
        approver: Approver | None,
        approver_failed: Callable[[BaseException], None],
        log: RunLog | None,
    ) -> None:
        self._machine = machine
        self._act = act
        self._log = log
        self._said: set[str] = set()  # the calls that were decided on here
        self._unposted: dict[str, _Unposted] = {}  # what was said of these, and is not written
        self._unposted_stop: str | None = None
        self._questions = Questions(approver, self._answered, approver_failed)

    def decide(self, call_id: str, decision: Approval) -> None:
        """Take a decision; raises UsageError, and changes nothing, if it is none."""
        if self._log is None:
            self._act(self._machine.decided(call_id, decision, time.time()))
        else:
            _ = self._queue(call_id, decision)

    async def post(self, call_id: str, decision: Approval) -> None:
        """Take one, and wait until it counts; raises AlreadyDecided if somebody was quicker."""
        if self._log is None:
            self.decide(call_id, decision)
        else:
            await self._queue(call_id, decision)

    def _queue(self, call_id: str, decision: Approval) -> "asyncio.Future[None]":
        """Have a decision written down when its request is; give what says whether it counts."""
        self._machine.check({call_id: decision})
        if call_id in self._said:
            raise AlreadyDecided(call_id)
        self._said.add(call_id)
        counts = asyncio.get_running_loop().create_future()
        counts.add_done_callback(lambda done: done.exception())  # who does not wait need not know
        self._unposted[call_id] = _Unposted(decision, counts)
        self._act(Step([], []))
        return counts

    @property
    def has_unposted(self) -> bool:
        """Whether something was decided here that is not written yet."""
        return bool(self._unposted)

    def give_up(self) -> None:
        """Say that what is not written will not be: the run is at rest here."""
        while self._unposted:
            _, (_, counts) = self._unposted.popitem()
            if not counts.done():
                counts.set_exception(UsageError("the run has paused: use Agent.resume"))

    def stop(self, reason: str) -> None:
        """Take that somebody wants the end of the run."""
        self._unposted_stop = reason
        self._act(self._machine.stopped(reason))

    async def post_stop(self, log: RunLog) -> None:
        """Write down that somebody here wants the end of the run."""
        reason, self._unposted_stop = self._unposted_stop, None
        if reason is not None and log.has_begun:
            try:
                await log.stop(reason)
            except UsageError as error:
                logger.info("it is too late for a stop: %s", error)

    async def post_decisions(self, log: RunLog) -> None:
        """Write down what was decided here. A request that is not written yet has to be, first."""
        for call_id, (decision, counts) in list(self._unposted.items()):
            try:
                await log.decide({call_id: decision})
            except UsageError as error:
                is_too_early = not isinstance(error, AlreadyDecided) and self._asks_about(call_id)
                if is_too_early:
                    continue
                logger.info("a decision on the call %s does not count: %s", call_id, error)
                if not counts.done():
                    counts.set_exception(error)
            else:
                if not counts.done():
                    counts.set_result(None)
            del self._unposted[call_id]

    def _asks_about(self, call_id: str) -> bool:
        return any(request.call_id == call_id for request in self._machine.pending)

    # Who is asked in place

    def ask(self, tasks: TaskGroup, request: ApprovalRequested) -> None:
        """Ask, if there is anybody to be asked."""
        self._questions.ask(tasks, request)

    def withdraw(self, call_id: str) -> None:
        """Take a question back."""
        self._questions.withdraw(call_id)

    def withdraw_all(self) -> None:
        """Take all of them back."""
        self._questions.withdraw_all()

    async def _answered(self, request: ApprovalRequested, decision: Approval | None) -> None:
        call_id = request.call_id
        if request not in self._machine.pending:  # somebody else has decided meanwhile
            return
        if self._log is None and decision is None:
            self._act(self._machine.expired(call_id))
            return
        if decision is None:
            decision = await _too_late(request)
        try:
            self._machine.check_now({call_id: decision})
        except UsageError as error:
            decision = Deny(str(error))
        if self._log is None:
            self._act(self._machine.decided(call_id, decision, time.time()))
        else:
            try:
                await self._log.decide({call_id: decision})
            except AlreadyDecided:
                logger.info("somebody else has decided on the call %s before", call_id)

    # Anybody

    async def hear(self, log: RunLog) -> None:
        """Take what others decide, and that they want the run stopped."""
        async with aclosing(log.posts()) as heard:
            async for posts in heard:
                for call_id in posts.decisions:
                    await self._take(log, call_id, posts)
                if posts.stop_reason is not None and not self._machine.is_at_rest:
                    self._act(self._machine.stopped(posts.stop_reason))

    async def _take(self, log: RunLog, call_id: str, posts: Posts) -> None:
        machine = self._machine
        if machine.is_at_rest or not self._asks_about(call_id):
            return  # it waits for who resumes; or it is taken already
        decision = posts.decisions[call_id]
        if await usable_of(log, machine, {call_id: decision}):
            self._act(machine.decided(call_id, decision, posts.times[call_id]))
        elif machine.has_tool(call_id):  # it was taken back, so it can be decided on anew
            self._said.discard(call_id)
            again = [one for one in machine.pending if one.call_id == call_id]
            self._act(Step([], [AskPerson(request) for request in again]))

    async def after_pause(self, log: RunLog) -> Step | None:
        """Say how a run goes on that has just paused, if somebody has spoken meanwhile."""
        await self.post_decisions(log)
        posts = await log.posted()
        if not (posts.decisions or posts.stop_reason is not None) or self._machine.is_over:
            return None
        if not await log.claim_anew():
            return None  # others have gone on with it
        if posts.stop_reason is not None:
            return self._machine.stopped(posts.stop_reason)
        decisions = await usable_of(log, self._machine, posts.decisions)
        if decisions:
            return self._machine.resumed(decisions, time.time(), posts.times)
        await log.release()
        return None


async def usable_of(log: RunLog, machine: Machine, posted: Decisions) -> dict[str, Approval]:
    """Give the decisions that fit; others are taken back, so that somebody can decide anew."""
    usable: dict[str, Approval] = {}
    for call_id, decision in posted.items():
        if isinstance(decision, Approve) and not machine.has_tool(call_id):
            continue  # it waits for who has the tool
        try:
            machine.check({call_id: decision})
        except UsageError as error:
            logger.warning("a decision on the call %s cannot be used: %s", call_id, error)
            await log.reopen(call_id)
        else:
            usable[call_id] = decision
    return usable


async def _too_late(request: ApprovalRequested) -> Deny:
    """Wait until the time has come after which nobody can decide."""
    while request.expires_at is not None and time.time() < request.expires_at:
        await anyio.sleep(_CLOCKS_DIFFER)
    return Deny("nobody decided in time")
