"""Whether a call of an observed run may run: who wants to run it waits here for a decision.

Decisions come by the store, where the first one counts, whoever makes it. What was decided is in
the log before it is answered (invariant 11).
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

import anyio
from anyio.abc import TaskGroup

from argstream.agent._questions import Questions
from argstream.agent._run_log import RunLog
from argstream.agent.approvals import Approval, Approver, Deny
from argstream.agent.observing._observed import Answer, Observed, not_run
from argstream.errors import UsageError
from argstream.events import ApprovalRequested, Event
from argstream.log import Posts

__all__ = ["ApproverOptions", "Asking", "News"]

_CLOSING: Final = 0.5
"""How long the stream may take to say that a call is whole, in seconds, when that is to be run.

Of a call without arguments it says so when the turn is over, which may be after its run."""

logger = logging.getLogger("argstream.agent")


class News:
    """Lets others wait until something has come."""

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def tell(self) -> None:
        """Say that something has come."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def until(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait until something is so, at most for so long."""
        with anyio.move_on_after(seconds):
            while not is_so():
                if self._event is None:
                    self._event = anyio.Event()
                await self._event.wait()


class Posting(Protocol):
    """Has events written and told, and then something done."""

    def __call__(self, events: list[Event], then: Callable[[], None] | None = None) -> None: ...


class ApproverOptions(NamedTuple):
    """The approver of an observed run, its error callback and its timeout."""

    approver: Approver | None
    failed: Callable[[BaseException], None]
    """Receives what the approver raised."""
    seconds: float | None
    """How long a request waits for a decision before it is denied."""


class _Question:
    """Somebody who waits for an answer."""

    def __init__(self) -> None:
        self.is_shown = False
        """Whether it is in the log, so that anybody can decide."""
        self.answer: Answer | None = None
        self.is_answered = anyio.Event()

    def give(self, answer: Answer) -> None:
        self.answer = answer
        self.is_answered.set()


class Asking:
    """The questions of one run."""

    def __init__(
        self,
        observed: Observed,
        log: RunLog,
        post: Posting,
        approving: ApproverOptions,
    ) -> None:
        self._observed = observed
        self._log = log
        self._post = post
        self._seconds = approving.seconds
        self._approvers = Questions(approving.approver, self._answered, approving.failed)
        self._questions: dict[str, _Question] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether anybody waits for an answer."""
        return bool(self._questions)

    @property
    def pending(self) -> tuple[ApprovalRequested, ...]:
        """What anybody can decide on, now."""
        shown = {call_id for call_id, question in self._questions.items() if question.is_shown}
        return tuple(request for request in self._observed.pending if request.call_id in shown)

    async def ask(
        self, tasks: TaskGroup, news: News, call_id: str, text: str, reason: str
    ) -> Answer:
        """Have somebody decide whether a call may run with these arguments, and wait for it."""
        observed = self._observed
        await news.until(lambda: observed.is_settled(call_id), _CLOSING)
        if (objection := observed.objection(call_id)) is not None:
            return not_run(objection)
        expires_at = None if self._seconds is None else time.time() + self._seconds
        question = self._questions[call_id] = _Question()
        events, request = observed.ask(call_id, text, reason, expires_at)
        self._post(events, partial(self._show, question, tasks, request))
        try:
            return await self._wait(request, question)
        finally:  # also if who has asked does not want to know any more
            self._approvers.withdraw(call_id)
            self._questions.pop(call_id, None)
            self._post(observed.withdraw(call_id, "the agent does not want to run it any more"))

    def _show(self, question: _Question, tasks: TaskGroup, request: ApprovalRequested) -> None:
        question.is_shown = True
        if request.call_id in self._questions:  # it has not been taken back meanwhile
            self._approvers.ask(tasks, request)

    async def _wait(self, request: ApprovalRequested, question: _Question) -> Answer:
        with anyio.move_on_after(self._seconds):
            await question.is_answered.wait()
        if question.answer is None:
            await self._answered(request, None)
            await question.is_answered.wait()
        assert question.answer is not None, "it was given"  # noqa: S101 - for types
        return question.answer

    async def _answered(self, request: ApprovalRequested, decision: Approval | None) -> None:
        """Take what somebody says who was asked in place; None if nobody has in time."""
        decision = Deny("nobody decided in time") if decision is None else decision
        if (problem := self._observed.problem(decision)) is not None:
            decision = Deny(problem)
        try:
            await self._log.decide({request.call_id: decision})
        except UsageError as error:  # somebody was quicker, or nobody wants to know any more
            logger.info("what was decided does not count: %s", error)

    async def take(self, posts: Posts) -> None:
        """Take what anybody has decided."""
        waiting = {request.call_id for request in self._observed.pending}
        for call_id, decision in posts.decisions.items():
            if call_id not in waiting:
                continue
            if (problem := self._observed.problem(decision)) is not None:
                logger.warning("a decision on the call %s cannot be used: %s", call_id, problem)
                await self._log.reopen(call_id)
                continue
            when = posts.times.get(call_id, time.time())
            events, answer = self._observed.decide(call_id, decision, when)
            question = self._questions[call_id]
            self._post(events, partial(question.give, answer))

    def dismiss(self) -> None:
        """Let nobody wait any more: no call may run."""
        for question in self._questions.values():
            question.give(not_run("the run was stopped"))
