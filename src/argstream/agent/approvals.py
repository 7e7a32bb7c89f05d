"""Approvals: what a decision is bound to, who may decide, and when a request expires.

A decision is about one call and the exact text of its arguments. The digest stands for both, and a
fresh parse of that text is what runs (invariant 12).

The approver of the agent, the consumer of the run and any other process may decide. If the run has
a log, all of them decide in its store. The first decision counts, and the run receives it from
there.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from argstream.agent._lease import RunLog
from argstream.agent.tools import run_in_thread
from argstream.errors import AlreadyDecidedError, UsageError
from argstream.events import ApprovalRequested, ApprovalScope
from argstream.runs._records import Approval, Approve, Commands, Decisions, Deny

if TYPE_CHECKING:
    from argstream.agent._loop import AgentLoop, Step  # which needs the grants and digests of here

__all__ = ["Approval", "Approve", "Approver", "Decisions", "Deny", "Grant"]

EXPIRED: Final = "no decision came in time"
_CLOCK_STEP: Final = 0.01  # seconds between two looks at the clock of the store

logger: Final = logging.getLogger("argstream.agent")

Approver: TypeAlias = Callable[[ApprovalRequested], Approval | Awaitable[Approval]]
"""Decides while the run continues. A function that is not async is called in a thread."""


class Grant(Struct, frozen=True):
    """What was approved for the rest of the conversation."""

    scope: ApprovalScope
    name: str
    """The name of the tool or of the rule."""
    owner: Any = None
    """The function of the tool, or the rule: another agent may use the same names."""


def digest_of(run_id: str, call_id: str, name: str, text: str) -> str:
    """Return the digest of this call with exactly these arguments, in this run only."""
    return _sha256(run_id, call_id, name, text)


def idempotency_key(run_id: str, call_id: str) -> str:
    """Return the key of this call, which is the same each time it runs."""
    return _sha256(run_id, call_id)[:32]


def _sha256(*parts: str) -> str:
    return sha256(msgspec.json.encode(parts)).hexdigest()  # JSON keeps the parts apart


def is_expired(request: ApprovalRequested | None, now: float) -> bool:
    """Return True if a decision that was made at this time comes too late."""
    expires_at = None if request is None else request.expires_at
    return expires_at is not None and now >= expires_at


class ApproverTasks:
    """Asks the approver about requests, and withdraws questions that were decided elsewhere."""

    def __init__(
        self,
        approver: Approver | None,
        answered: Callable[[ApprovalRequested, Approval | None], Awaitable[None]],
        failed: Callable[[BaseException], None],
    ) -> None:
        """``answered`` receives the decision, or None if the request expired.

        ``failed`` receives what the approver raised, or a UsageError if it returned no decision.
        """
        self._approver: Callable[[ApprovalRequested], Any] | None = approver
        self._answered = answered
        self._failed = failed
        self._scopes: dict[str, anyio.CancelScope] = {}  # by call
        self._one_at_a_time = anyio.Lock()

    def ask(self, tasks: TaskGroup, request: ApprovalRequested) -> None:
        """Ask the approver, if there is one."""
        if self._approver is not None and request.call_id not in self._scopes:
            self._scopes[request.call_id] = scope = anyio.CancelScope()
            tasks.start_soon(self._ask, self._approver, request, scope)

    def withdraw(self, call_id: str) -> None:
        """Cancel the question about a call."""
        if call_id in self._scopes:
            self._scopes.pop(call_id).cancel()

    def withdraw_all(self) -> None:
        """Cancel all questions."""
        for scope in self._scopes.values():
            scope.cancel()
        self._scopes.clear()

    async def _ask(
        self,
        approver: Callable[[ApprovalRequested], Any],
        request: ApprovalRequested,
        scope: anyio.CancelScope,
    ) -> None:
        if request.expires_at is not None:
            scope.deadline = anyio.current_time() + request.expires_at - time.time()
        decision: Approval | None = None
        failure: BaseException | None = None
        with scope:
            try:
                decision = await self._decision(approver, request)
            except (Exception, asyncio.CancelledError, SystemExit, KeyboardInterrupt) as error:
                if is_cancelled(error):
                    raise
                failure = error
        if self._scopes.pop(request.call_id, None) is None:
            return  # it was withdrawn
        if failure is None:
            await self._answered(request, decision)
        else:
            self._failed(failure)

    async def _decision(
        self, approver: Callable[[ApprovalRequested], Any], request: ApprovalRequested
    ) -> Approval:
        if _is_async(approver):
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


def approver_failure_message(error: BaseException) -> str:
    """Return the error message for a failed approver."""
    if isinstance(error, UsageError):
        return str(error)
    return f"the approver failed with {type(error).__name__}"


def _is_async(approver: Callable[[ApprovalRequested], Any]) -> bool:
    return inspect.iscoroutinefunction(approver) or inspect.iscoroutinefunction(
        type(approver).__call__
    )


def is_cancelled(error: BaseException) -> bool:
    """Return True if this task is cancelled, and not just something that it awaited."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    is_by_hand = task is not None and task.cancelling() > 0
    return is_by_hand or anyio.current_effective_deadline() == -float("inf")


class _Unsent(NamedTuple):
    decision: Approval
    counts: "asyncio.Future[None]"  # done when it is known whether the decision counts


class Decider:
    """Passes decisions and stops to the loop of a run; ``act`` receives the steps that follow."""

    def __init__(
        self,
        machine: "AgentLoop",
        act: "Callable[[Step], None]",
        approver: Approver | None,
        approver_failed: Callable[[BaseException], None],
        log: RunLog | None,
    ) -> None:
        self._machine = machine
        self._act = act
        self._log = log
        self._decided: set[str] = set()  # calls with a decision of this process
        self._unsent: dict[str, _Unsent] = {}  # decisions that are not in the store yet
        self._unsent_stop: str | None = None
        self.approver_tasks: ApproverTasks = ApproverTasks(
            approver, self._answered, approver_failed
        )

    def decide(self, call_id: str, decision: Approval) -> None:
        """Decide on a call. Raises UsageError, and changes nothing, if that is not possible."""
        if self._log is None:
            self._act(self._machine.decided(call_id, decision, time.time()))
        else:
            _ = self._queue(call_id, decision)

    async def post(self, call_id: str, decision: Approval) -> None:
        """Decide on a call, and wait until it counts. Raises AlreadyDecidedError if it does not."""
        if self._log is None:
            self.decide(call_id, decision)
        else:
            await self._queue(call_id, decision)

    def _queue(self, call_id: str, decision: Approval) -> "asyncio.Future[None]":
        """Post a decision as soon as its request is in the store."""
        self._machine.check({call_id: decision})
        if call_id in self._decided:
            raise AlreadyDecidedError(call_id)
        self._decided.add(call_id)
        counts = asyncio.get_running_loop().create_future()
        counts.add_done_callback(lambda done: done.exception())  # callers need not wait for it
        self._unsent[call_id] = _Unsent(decision, counts)
        self._act(self._machine.unchanged())
        return counts

    @property
    def has_unsent(self) -> bool:
        """Whether a decision of this process is not in the store yet."""
        return bool(self._unsent)

    def give_up(self) -> None:
        """Fail the decisions that were not posted, because this process drives the run no more."""
        while self._unsent:
            _, (_, counts) = self._unsent.popitem()
            if not counts.done():
                counts.set_exception(UsageError("the run has paused: use Agent.resume"))

    def stop(self, reason: str) -> None:
        """Stop the run."""
        self._unsent_stop = reason
        self._act(self._machine.stopped(reason))

    async def post_stop(self, log: RunLog) -> None:
        """Write the stop of this process to the store, if there is one."""
        reason, self._unsent_stop = self._unsent_stop, None
        if reason is not None and log.has_begun:
            try:
                await log.store.stop(log.run_id, reason)
            except UsageError as error:
                logger.info("it is too late for a stop: %s", error)

    async def post_decisions(self, log: RunLog) -> None:
        """Write the decisions of this process to the store, if their requests are there."""
        for call_id, (decision, counts) in list(self._unsent.items()):
            try:
                await log.store.decide(log.run_id, {call_id: decision})
            except UsageError as error:
                is_too_early = not isinstance(error, AlreadyDecidedError) and self._is_pending(
                    call_id
                )
                if is_too_early:
                    continue
                logger.info("a decision on the call %s does not count: %s", call_id, error)
                if not counts.done():
                    counts.set_exception(error)
            else:
                if not counts.done():
                    counts.set_result(None)
            del self._unsent[call_id]

    def _is_pending(self, call_id: str) -> bool:
        return any(request.call_id == call_id for request in self._machine.pending)

    async def _answered(self, request: ApprovalRequested, decision: Approval | None) -> None:
        call_id = request.call_id
        if request not in self._machine.pending:  # it was decided elsewhere meanwhile
            return
        if self._log is None and decision is None:
            self._act(self._machine.expired(call_id))
            return
        if decision is None:
            decision = await _after_expiry(request)
        try:
            self._machine.check_now({call_id: decision})
        except UsageError as error:
            decision = Deny(str(error))
        if self._log is None:
            self._act(self._machine.decided(call_id, decision, time.time()))
        else:
            try:
                await self._log.store.decide(self._log.run_id, {call_id: decision})
            except AlreadyDecidedError:
                logger.info("the call %s was decided elsewhere before", call_id)

    async def receive(self, log: RunLog) -> None:
        """Receive decisions and stops from the store, of this process and of others."""
        async with aclosing(log.store.watch_commands(log.run_id)) as received:
            async for commands in received:
                for call_id in commands.decisions:
                    await self._receive_decision(log, call_id, commands)
                if commands.stop_reason is not None and not self._machine.is_at_rest:
                    self._act(self._machine.stopped(commands.stop_reason))

    async def _receive_decision(self, log: RunLog, call_id: str, commands: Commands) -> None:
        machine = self._machine
        if machine.is_at_rest or not self._is_pending(call_id):
            return  # Agent.resume will use it; or it was used already
        decision = commands.decisions[call_id]
        if await usable_decisions(log, machine, {call_id: decision}):
            self._act(machine.decided(call_id, decision, commands.decided_at[call_id]))
        elif machine.has_tool(call_id):  # it was reopened, so it can be decided again
            self._decided.discard(call_id)
            self._act(machine.asked_again(call_id))

    async def after_pause(self, log: RunLog) -> "Step | None":
        """Return how a run continues that has just paused, if there are decisions or a stop.

        A process that decides, and then sees that the run has not paused yet, relies on this.
        """
        await self.post_decisions(log)
        commands = await log.store.commands(log.run_id)
        if not (commands.decisions or commands.stop_reason is not None) or self._machine.is_over:
            return None
        if not await log.reacquire():
            return None  # another process has resumed it
        if commands.stop_reason is not None:
            return self._machine.stopped(commands.stop_reason)
        decisions = await usable_decisions(log, self._machine, commands.decisions)
        if decisions:
            return self._machine.resumed(decisions, time.time(), commands.decided_at)
        await log.release()
        return None


async def usable_decisions(
    log: RunLog, machine: "AgentLoop", posted: Decisions
) -> dict[str, Approval]:
    """Return the decisions that can be used. Requests with others are reopened in the store."""
    usable: dict[str, Approval] = {}
    for call_id, decision in posted.items():
        if isinstance(decision, Approve) and not machine.has_tool(call_id):
            continue  # it waits for an agent that has the tool
        try:
            machine.check({call_id: decision})
        except UsageError as error:
            logger.warning("a decision on the call %s cannot be used: %s", call_id, error)
            await log.reopen(call_id)
        else:
            usable[call_id] = decision
    return usable


async def _after_expiry(request: ApprovalRequested) -> Deny:
    """Wait until the clock says that the request has expired: timers and clocks may differ."""
    while request.expires_at is not None and not is_expired(request, time.time()):
        await anyio.sleep(_CLOCK_STEP)
    return Deny(EXPIRED)
