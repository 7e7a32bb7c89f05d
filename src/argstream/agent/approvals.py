"""Approvals: what a decision is bound to, how it reaches the run, and when a request expires.

A decision is about one call and the exact text of its arguments. The digest stands for both, and a
fresh parse of that text is what runs (invariant 12).

The approver of the agent, the consumer of the run and any other process may decide. All of them
decide in the store. The first decision counts, and the run receives it from there.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, get_args

import msgspec
from msgspec import Struct

from argstream._asyncio import run_in_thread
from argstream.agent._lease import RunLog
from argstream.errors import AlreadyDecidedError, RunBusyError, UsageError
from argstream.events import ApprovalRequested, ApprovalScope
from argstream.runs._records import Approval, Approve, Commands, Decisions, Deny
from argstream.sanitise import visible_line

if TYPE_CHECKING:
    from argstream.agent._driver import AnyLoop, Driver
    from argstream.agent._loop import AgentLoop, Step

__all__ = ["Approval", "Approve", "Approver", "Decisions", "Deny", "Grant"]

EXPIRED: Final = "no decision came in time"
_CLOCK_STEP: Final = 0.01  # seconds between two checks of the clock

logger: Final = logging.getLogger("argstream.agent")

Approver: TypeAlias = Callable[[ApprovalRequested], Approval | Awaitable[Approval]]
"""Decides while the run continues. A function that is not async is called in a thread."""


class Grant(Struct, frozen=True):
    """What was approved for the rest of the conversation."""

    scope: ApprovalScope
    name: str  # of the tool or of the rule
    owner: Any = None
    """The function of the tool, or the rule: another agent may use the same names."""


def digest_of(run_id: str, call_id: str, *name_and_text: str) -> str:
    """Return the digest of this call with exactly these arguments, in this run only."""
    parts = run_id, call_id, *name_and_text
    return sha256(msgspec.json.encode(parts)).hexdigest()  # JSON keeps the parts apart


def idempotency_key(run_id: str, call_id: str) -> str:
    """Return the key of this call, which is the same each time it runs."""
    return digest_of(run_id, call_id)[:32]


def is_expired(request: ApprovalRequested | None, now: float) -> bool:
    """Return True if a decision that was made at this time comes too late."""
    expires_at = None if request is None else request.expires_at
    return expires_at is not None and now >= expires_at


def check_decision(request: ApprovalRequested, decision: object) -> None:
    """Raise UsageError if a decision does not fit a request. Edited arguments are not checked."""
    if isinstance(decision, Deny):
        return
    if not isinstance(decision, Approve):
        raise UsageError(f"a decision is Approve(…) or Deny(…), not {type(decision).__name__}")
    if decision.digest not in ("", request.digest):
        raise UsageError(f"the digest is not that of the call {request.call_id}: ask again")
    if decision.always not in get_args(ApprovalScope):
        raise UsageError(
            f'always must be "call", "rule" or "conversation", not {decision.always!r}'
        )
    if decision.always == "rule" and request.rule is None:
        raise UsageError('no rule asks about this call: use Approve(always="conversation")')


def is_cancelled(error: BaseException) -> bool:
    """Return True if this task is cancelled, and not just something that it awaited."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Decider:
    """Asks the approver of a run, and passes decisions and stops to its loop."""

    def __init__(self, driver: "Driver", log: RunLog) -> None:
        self._driver = driver
        self._loop = driver.loop
        self._log = log
        self._approver: Callable[[ApprovalRequested], Any] | None = driver.source.approver
        self._questions: dict[str, asyncio.Task[None]] = {}  # to the approver, by call
        self._one_at_a_time = asyncio.Lock()
        self._decided: set[str] = set()  # calls with a decision of this process
        # Decisions that are not in the store yet. The future is done when it is known whether the
        # decision counts.
        self.unsent: dict[str, tuple[Approval, asyncio.Future[None]]] = {}
        self._unsent_stop: str | None = None

    def ask(self, request: ApprovalRequested) -> None:
        """Ask the approver. Without one, only wait until the request expires, if that happens."""
        # An observed run goes on while it waits for decisions, also without an approver.
        expires = self._driver.source.is_observed and request.expires_at is not None
        if (self._approver is not None or expires) and request.call_id not in self._questions:
            self._questions[request.call_id] = self._driver.spawn(self._ask(request))

    def withdraw_decided(self) -> None:
        """Cancel the questions about calls that are not pending any more."""
        for call_id in list(self._questions):
            if not self._loop.is_pending(call_id):
                self._questions.pop(call_id).cancel()

    async def _ask(self, request: ApprovalRequested) -> None:
        left = None if request.expires_at is None else request.expires_at - time.time()
        decision: Approval | None = None
        failure: BaseException | None = None
        deadline = asyncio.timeout(left)
        try:
            async with deadline:
                decision = await self._answer(request)
        except (Exception, asyncio.CancelledError, SystemExit, KeyboardInterrupt) as error:
            if is_cancelled(error):
                raise
            failure = None if deadline.expired() else error
        if self._questions.pop(request.call_id, None) is None:
            return  # it was withdrawn
        if failure is None:
            await self._answered(request, decision)
        else:
            self._driver.approver_failed(failure)

    async def _answer(self, request: ApprovalRequested) -> Approval:
        approver = self._approver
        if approver is None:
            await asyncio.Event().wait()  # until the request expires
            raise AssertionError
        functions = (approver, type(approver).__call__)
        if any(map(inspect.iscoroutinefunction, functions)):
            answer = await approver(request)
        else:
            async with self._one_at_a_time:  # two questions in one terminal would be confused
                answer = await run_in_thread(partial(approver, request), "approver")
            answer = await answer if inspect.isawaitable(answer) else answer
        if not isinstance(answer, Approve | Deny):
            raise UsageError(
                f"the approver returned {answer!r} for {request.name}. It must return Approve(…) "
                "or Deny(…)"
            )
        return answer

    async def _answered(self, request: ApprovalRequested, decision: Approval | None) -> None:
        """Use the decision of the approver; None if the request expired."""
        call_id, loop = request.call_id, self._loop
        if request not in loop.pending:  # it was decided elsewhere meanwhile
            return
        if decision is None:
            # The wall clock decides. It may differ from the timer.
            while request.expires_at is not None and not is_expired(request, time.time()):
                await asyncio.sleep(_CLOCK_STEP)
            decision = Deny(EXPIRED)
        try:
            loop.check({call_id: decision})
        except UsageError as error:
            decision = Deny(str(error))
        try:
            _ = self.decide(call_id, decision)
        except AlreadyDecidedError:
            logger.info("the call %r was decided elsewhere before", call_id)

    def decide(self, call_id: str, decision: Approval) -> "asyncio.Future[None]":
        """Decide on a call as soon as its request is in the store.

        Raises UsageError, and changes nothing, if that is not possible. The future is done when the
        decision counts, or raises AlreadyDecidedError.
        """
        self._loop.check({call_id: decision})
        if call_id in self._decided:
            raise AlreadyDecidedError(call_id)
        self._decided.add(call_id)
        counts = asyncio.get_running_loop().create_future()
        counts.add_done_callback(lambda done: done.exception())  # callers need not wait for it
        self.unsent[call_id] = decision, counts
        self._driver.write_soon()
        return counts

    def give_up(self) -> None:
        """Withdraw all questions, and fail the decisions that were not posted."""
        while self._questions:
            self._questions.popitem()[1].cancel()
        message = "the decision was not sent: this process no longer drives the run"
        while self.unsent:
            _, (_, counts) = self.unsent.popitem()
            if not counts.done():
                counts.set_exception(UsageError(message))

    def stop(self, reason: str) -> None:
        self._unsent_stop = reason
        self._driver.act(self._loop.stopped(reason))

    async def post_stop(self) -> None:
        """Write the stop of this process to the store, if there is one."""
        log = self._log
        reason, self._unsent_stop = self._unsent_stop, None
        if reason is not None and log.has_begun:
            try:
                await log.store.stop(log.run_id, reason)
            except UsageError as error:
                logger.info("the stop came too late: %s", visible_line(str(error)))

    async def post_decisions(self) -> None:
        """Write the decisions of this process to the store, if their requests are there."""
        for call_id, (decision, counts) in list(self.unsent.items()):
            try:
                await self._log.store.decide(self._log.run_id, {call_id: decision})
            except UsageError as error:
                if not isinstance(error, AlreadyDecidedError) and self._loop.is_pending(call_id):
                    continue  # the request is not in the store yet
                why = visible_line(str(error))
                logger.info("a decision on the call %r does not count: %s", call_id, why)
                if not counts.done():
                    counts.set_exception(error)
            else:
                if not counts.done():
                    counts.set_result(None)
            del self.unsent[call_id]

    async def receive(self, commands: Commands) -> None:
        """Use the commands that were sent to the run, by this process or another."""
        loop = self._loop
        for call_id, decision in commands.decisions.items():
            if loop.is_at_rest or not loop.is_pending(call_id):
                continue  # Agent.resume will use it; or it was used already
            if await usable_decisions(self._log, loop, {call_id: decision}):
                self._driver.act(loop.decided(call_id, decision, commands.decided_at[call_id]))
            elif loop.has_tool(call_id):  # it was reopened, so it can be decided again
                self._decided.discard(call_id)
                for request in loop.pending:
                    if request.call_id == call_id:
                        self.ask(request)
        if commands.stop_reason is not None and not loop.is_at_rest:
            self._driver.act(loop.stopped(commands.stop_reason))

    async def after_pause(self) -> "Step | None":
        """Return how a run continues that has just paused, if there are decisions or a stop.

        A process that decides, and then sees that the run has not paused yet, relies on this.
        """
        log = self._log
        await self.post_decisions()
        commands = await log.store.commands(log.run_id)
        if not (commands.decisions or commands.stop_reason is not None) or self._loop.is_over:
            return None
        try:
            await log.reacquire()
        except RunBusyError:
            return None  # another process has resumed it
        if commands.stop_reason is not None:
            return self._loop.stopped(commands.stop_reason)
        decisions = await usable_decisions(log, self._loop, commands.decisions)
        if decisions:
            loop = cast("AgentLoop", self._loop)  # an observed run does not pause
            return loop.resumed(decisions, commands.decided_at)
        await log.release()
        return None


async def usable_decisions(log: RunLog, loop: "AnyLoop", posted: Decisions) -> dict[str, Approval]:
    """Return the decisions that can be used. Requests with others are reopened in the store."""
    usable: dict[str, Approval] = {}
    for call_id, decision in posted.items():
        if isinstance(decision, Approve) and not loop.has_tool(call_id):
            continue  # it waits for an agent that has the tool
        try:
            loop.check({call_id: decision})
        except UsageError as error:
            why = visible_line(str(error))
            logger.warning("a decision on the call %r cannot be used: %s", call_id, why)
            await log.reopen(call_id)
        else:
            usable[call_id] = decision
    return usable
