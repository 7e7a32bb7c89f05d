"""Asks a person in place, while the run goes on."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup

from argstream.agent.approvals import Approval, Approve, Approver, Deny
from argstream.agent.tools import run_in_thread
from argstream.errors import UsageError
from argstream.events import ApprovalRequested

__all__ = ["Questions", "failure_message", "is_cancelled"]

Answered: TypeAlias = Callable[[ApprovalRequested, Approval | None], Awaitable[None]]
"""Is given what somebody said, or None if nobody did in time."""
Failed: TypeAlias = Callable[[BaseException], None]
"""Receives what the approver raised, or a UsageError if it returned no decision."""


class Questions:
    """Questions that somebody has not answered yet, by call."""

    def __init__(self, approver: Approver | None, answered: Answered, failed: Failed) -> None:
        self._approver: Callable[[ApprovalRequested], Any] | None = approver
        self._answered = answered
        self._failed = failed
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._one_at_a_time = anyio.Lock()

    def ask(self, tasks: TaskGroup, request: ApprovalRequested) -> None:
        """Ask, if there is anybody to be asked."""
        if self._approver is not None and request.call_id not in self._scopes:
            self._scopes[request.call_id] = scope = anyio.CancelScope()
            tasks.start_soon(self._ask, self._approver, request, scope)

    def withdraw(self, call_id: str) -> None:
        """Take a question back."""
        if call_id in self._scopes:
            self._scopes.pop(call_id).cancel()

    def withdraw_all(self) -> None:
        """Take all of them back."""
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
            return  # it was taken back
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
            async with self._one_at_a_time:  # two at one terminal would be taken for each other
                answer = await run_in_thread(partial(approver, request), "approver")
            answer = await answer if inspect.isawaitable(answer) else answer
        if not isinstance(answer, Approve | Deny):
            raise UsageError(
                f"the approver returned {answer!r} for {request.name}. It must return Approve(…) "
                "or Deny(…)"
            )
        return answer


def failure_message(error: BaseException) -> str:
    """Return the error message for a failed approver."""
    if isinstance(error, UsageError):
        return str(error)
    return f"the approver failed with {type(error).__name__}"


def _is_async(approver: Callable[[ApprovalRequested], Any]) -> bool:
    """Say whether calling it gives a coroutine: it may be an object with an async ``__call__``."""
    return inspect.iscoroutinefunction(approver) or inspect.iscoroutinefunction(
        type(approver).__call__
    )


def is_cancelled(error: BaseException) -> bool:
    """Say whether this task is cancelled, and not just something that it waited for."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    is_by_hand = task is not None and task.cancelling() > 0
    return is_by_hand or anyio.current_effective_deadline() == -float("inf")
