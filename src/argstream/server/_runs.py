"""The runs of a server: begun, decided on and ended, in whatever process they are."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec.structs import replace

from argstream.agent import Agent, Conversation
from argstream.agent.approvals import Grant
from argstream.errors import ArgstreamError, RunBusyError, RunNotFoundError, StoreError, UsageError
from argstream.events import ApprovalRequested, Event, RunFailed, RunPaused, RunStarted, RunStatus
from argstream.runs._records import Approval, Approve, Decisions, RunInfo
from argstream.runs._store import Store
from argstream.sanitise import visible_line
from argstream.server._problems import Problem

_REMEMBERED: Final = 10_000
"""How many conversations keep their grants."""
_AFTER_EXPIRY: Final = 0.05
"""Seconds after an expiry before the run is resumed: the clocks of others may be behind."""

logger = logging.getLogger("argstream.server")
_PAUSED_EACH: Final = 6
"""Every how many rounds of recovery paused runs are checked too."""
_CHARACTERS: Final = 200
_KEPT: Final = 5_000
_PROMPTS_AT_ONCE: Final = 16
"""How many logs are read at once: their first records may hold a long history."""
_UNREADABLE_SECONDS: Final = 60.0
"""How long a log that cannot be read is left alone: pages ask for lists every few seconds."""

V = TypeVar("V")
_AT_ONCE: Final = 10
"""How many runs of a conversation may have been begun at the same moment."""

T = TypeVar("T")


class DrivenRun(Protocol):
    """A run that advances while its events are consumed."""

    @property
    def run_id(self) -> str: ...

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def aclose(self) -> None: ...


class Driver(Protocol):
    """Begins and resumes runs."""

    @property
    def name(self) -> str:
        """The value of ``RunInfo.agent`` of its runs. It cannot resume others."""

    @property
    def store(self) -> Store: ...

    def begin(self, prompt: str, conversation: Conversation) -> DrivenRun:
        """Return a run that begins when its first event is requested."""

    def resume(self, info: RunInfo) -> DrivenRun | None:
        """Return a run that continues; None if this driver cannot resume runs."""

    async def conversation(self, id: str, user: str) -> Conversation:
        """Return a stored or new conversation, with the ID of its run that is not over."""

    async def check(self, run_id: str, decisions: Decisions) -> None:
        """Raise ``UsageError`` if a decision could not be used; nothing changes."""

    async def stop(self, run_id: str, reason: str) -> None:
        """Stop a run, in whatever process it is driven. If none drives it, write its end."""

    async def aclose(self) -> None: ...


class Runs:
    """The runs of a server, in whatever process they are driven."""

    def __init__(self, driver: Driver, *, recovery_seconds: float, max_running: int) -> None:
        self._driver = driver
        self._driving = RunSupervisor(driver, max_running)
        self.recovery = Recovery(driver.store, self._driving, recovery_seconds)
        self.prompts = Prompts(driver.store)
        """What they were asked."""
        self._newest: WeakKeyDictionary[Conversation, str] = WeakKeyDictionary()  # when it was read
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    @property
    def store(self) -> Store:
        return self._driver.store

    @property
    def agent(self) -> str:
        return self._driver.name

    def open(self) -> None:
        self._driving.open()
        self.recovery.begin()

    async def aclose(self) -> None:
        await self.recovery.aclose()
        await self._driving.aclose()
        await self._driver.aclose()

    async def info(self, run_id: str, user: str) -> RunInfo:
        """Return what is known of a run.

        A run of another user, or of another agent that uses the store, is as unknown as one that
        never existed: what was approved for one agent must not be run by another.
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
                status=status, conversation_id=conversation_id, user=user, limit=wanted
            )
            ours = [info for info in found if self._is_ours(info)]
            if len(ours) >= limit or len(found) < wanted:
                return ours[:limit]
            wanted *= 4

    async def newest(self, conversation_id: str, user: str) -> RunInfo | None:
        found = await self.of_user(user, limit=1, conversation_id=conversation_id)
        return found[0] if found else None

    def _is_ours(self, info: RunInfo) -> bool:
        return info.agent == self.agent

    async def conversation(self, conversation_id: str, user: str) -> Conversation:
        """Return a conversation with its history. Raise Problem if a run of it is not over."""
        newest = await self.store.runs(conversation_id=conversation_id, user=user, limit=1)
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

    async def pending(self, run_id: str) -> tuple[ApprovalRequested, ...]:
        return (await self.store.snapshot(run_id)).pending

    async def start(
        self,
        prompt: str,
        conversation: Conversation,
        rested: Callable[[], None],
    ) -> str:
        """Begin a run, and return its ID when it is in the store.

        ``rested`` is called when it is not driven here any more, or could not be begun.
        """
        return await _finished(self._start(prompt, conversation, rested))

    async def _start(
        self, prompt: str, conversation: Conversation, rested: Callable[[], None]
    ) -> str:
        try:
            async with self._turn(conversation):
                await self._require_unchanged(conversation)
                if self._driving.is_full:
                    raise _full("retry")
                run = self._driver.begin(prompt, conversation)
                await self._driving.begin(run, rested)
                await self._require_first(run.run_id, conversation)
                self.prompts.keep(run.run_id, prompt)
        except BaseException:
            rested()
            raise
        return run.run_id

    async def _require_unchanged(self, conversation: Conversation) -> None:
        """Raise Problem if another message has been sent since the conversation was read."""
        newest = await self.newest(conversation.id, conversation.user)
        if newest is None:
            return
        if not newest.is_over:
            raise _busy(newest.run_id)
        if self._newest.get(conversation, newest.run_id) != newest.run_id:
            raise Problem(
                409, "conversation-changed", "another message was sent first. Send this one again"
            )

    async def _require_first(self, run_id: str, conversation: Conversation) -> None:
        """If several processes began a run at the same moment, let only the first go on."""
        found = await self.store.runs(
            conversation_id=conversation.id, user=conversation.user, limit=_AT_ONCE
        )
        going = [info for info in found if not info.is_over]
        first = min(going, key=lambda info: (info.created, info.run_id), default=None)
        if first is not None and first.run_id != run_id:
            await self.stop(run_id, "another message was sent first")
            raise _busy(first.run_id)

    def _turn(self, conversation: Conversation) -> asyncio.Lock:
        """Return the lock that keeps two concurrent messages from beginning a run each."""
        return self._turns.setdefault((conversation.user, conversation.id), asyncio.Lock())

    async def decide(self, run_id: str, decisions: Decisions) -> None:
        """Decide on pending calls and resume the run.

        Raise Problem 403 for calls that are not pending (any more): the first decision on a call
        counts. Edited arguments must be valid.
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
            await self._require_pending(run_id, decisions)  # another decision may have been first
            raise
        await self._driving.go_on(run_id)

    async def _require_pending(
        self, run_id: str, decisions: Decisions
    ) -> Mapping[str, ApprovalRequested]:
        """Return the pending requests by call ID. Raise Problem for decisions on others."""
        waiting = {request.call_id: request for request in await self.pending(run_id)}
        for call_id, decision in decisions.items():
            request = waiting.get(call_id)
            if request is None:
                raise Problem(403, "not-pending", f"no pending approval for call {call_id!r}")
            if request.expires_at is not None and request.expires_at <= time.time():
                raise Problem(403, "expired", f"it is too late to decide on the call {call_id!r}")
            if isinstance(decision, Approve) and decision.digest != request.digest:
                raise other_request(call_id)
        return waiting

    async def forget(self, run_id: str) -> None:
        await self.store.delete(run_id)
        self.prompts.forget(run_id)

    async def stop(self, run_id: str, reason: str = "") -> None:
        """Stop a run. Do nothing if it has ended meanwhile."""
        await _finished(self._stop(run_id, reason))

    async def _stop(self, run_id: str, reason: str) -> None:
        try:
            await self._driver.stop(run_id, reason)
        except UsageError:
            if not (await self.store.info(run_id)).is_over:
                raise


def other_request(call_id: str) -> Problem:
    return Problem(
        403,
        "other-request",
        f"the call {call_id!r} changed since you saw it, or the digest is wrong. Review the call "
        "and decide again",
    )


class AgentDriver:
    def __init__(self, agent: Agent) -> None:
        if agent.store is None:
            raise UsageError(
                "the server finds its runs in a store: give the agent one, such as "
                'Agent(…, store="runs.db")'
            )
        self._agent = agent
        self._store = agent.store
        # Grants are not in the store: rules of the same name may differ in another process.
        self._grants: OrderedDict[tuple[str, str], set[Grant]] = OrderedDict()

    @property
    def name(self) -> str:
        return self._agent.name

    @property
    def store(self) -> Store:
        return self._store

    def begin(self, prompt: str, conversation: Conversation) -> DrivenRun:
        conversation.grants = self._grants_in(conversation)
        return self._agent.run_stream(prompt, conversation)

    def _grants_in(self, conversation: Conversation) -> set[Grant]:
        """Return the grants of a conversation. All of its runs share the set."""
        name = (conversation.user, conversation.id)
        grants = self._grants.setdefault(name, conversation.grants)
        self._grants.move_to_end(name)
        if len(self._grants) > _REMEMBERED:
            self._grants.popitem(last=False)
        return grants

    def resume(self, info: RunInfo) -> DrivenRun | None:
        conversation = Conversation(id=info.conversation_id, user=info.user)
        conversation.grants = self._grants_in(conversation)
        return self._agent.resume(info.run_id, conversation=conversation)

    async def conversation(self, id: str, user: str) -> Conversation:
        conversation = await self._agent.conversation(id, user=user)
        if conversation.is_fresh:  # whatever was there under this name is forgotten
            self._grants.pop((user, id), None)
        return conversation

    async def check(self, run_id: str, decisions: Decisions) -> None:
        await self._agent.check(run_id, decisions)

    async def stop(self, run_id: str, reason: str) -> None:
        await self._agent.stop_async(run_id, reason)

    async def aclose(self) -> None:
        await self._agent.aclose()


class RunSupervisor:
    """Drives runs, each in a task."""

    def __init__(self, driver: Driver, max_running: int) -> None:
        self._driver = driver
        self._max_running = max_running
        self._driven: set[str] = set()  # the ids of runs
        self._expiring: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def _store(self) -> Store:
        return self._driver.store

    @property
    def is_full(self) -> bool:
        return len(self._driven) >= self._max_running

    def is_ours(self, info: RunInfo) -> bool:
        """Return True for a run of our agent that is not driven here already."""
        return info.agent == self._driver.name and info.run_id not in self._driven

    async def begin(self, run: DrivenRun, rested: Callable[[], None]) -> None:
        """Drive a run, and return when its beginning is in the store."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drive(run, begun).add_done_callback(lambda _: rested())
        await begun

    async def go_on(self, run_id: str) -> None:
        """Resume a run, unless a process drives it. If there are too many, recovery will."""
        info = await self._store.info(run_id)
        if info.is_over or info.owner is not None or not self.is_ours(info):
            return
        if self.is_full or self._is_closed:
            return
        run = self._driver.resume(info)
        if run is not None:
            _ = self._drive(run, None)
        elif info.is_abandoned:
            await self._driver.stop(run_id, "the process that ran it has ended")

    def _drive(self, run: DrivenRun, begun: "asyncio.Future[None] | None") -> "asyncio.Task[None]":
        self._driven.add(run.run_id)
        return self._do(self._follow(run, begun))

    def _do(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _follow(self, run: DrivenRun, begun: "asyncio.Future[None] | None") -> None:
        last: Event | None = None
        try:
            async for event in run:
                last = event
                if begun is not None and not begun.done():
                    begun.set_result(None)  # what is told is in the store
        except Exception as error:  # noqa: BLE001 - raised to the waiting request, or logged
            if begun is not None and not begun.done():
                begun.set_exception(error)
            else:
                _report(run.run_id, error)
        finally:
            self._driven.discard(run.run_id)
            if begun is not None:
                begun.cancel()  # does nothing if it is done
        match last:
            case RunPaused(pending=pending):
                # Who decided while this task was about to end has left it to this task.
                await reported(run.run_id, self.resume_if_commands_wait(run.run_id))
                self.expect(run.run_id, pending)
            case RunFailed(code=code, message=message):
                logger.warning("run %s: failed: %s: %s", run.run_id, code, visible_line(message))
            case _:
                pass

    async def resume_if_commands_wait(self, run_id: str) -> None:
        if (await self._store.info(run_id)).has_commands:
            await self.go_on(run_id)

    def expect(self, run_id: str, pending: Iterable[ApprovalRequested]) -> None:
        """Resume a paused run when the first of its approval requests expires."""
        times = [request.expires_at for request in pending if request.expires_at is not None]
        if times and run_id not in self._expiring:
            self._expiring.add(run_id)
            self._do(self._expire(run_id, min(times))).add_done_callback(
                lambda _: self._expiring.discard(run_id)
            )

    async def _expire(self, run_id: str, moment: float) -> None:
        await asyncio.sleep(max(moment - time.time(), 0.0) + _AFTER_EXPIRY)
        await reported(run_id, self.go_on(run_id))

    def open(self) -> None:
        self._is_closed = False

    async def aclose(self) -> None:
        """Stop driving. The store has what happened, so other processes can resume the runs."""
        self._is_closed = True
        here = asyncio.get_running_loop()
        tasks = [task for task in self._tasks if task.get_loop() is here]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._tasks.clear()  # of an event loop that has ended before, there is nothing to end


async def reported(run_id: str, work: Awaitable[None]) -> bool:
    """Await work for a run. If it fails, log why and return False."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - logged; the look-out comes back to it
        _report(run_id, error)
        return False
    return True


def _report(run_id: str, error: Exception) -> None:
    if isinstance(error, RunBusyError):
        logger.debug("run %s: another process was quicker", run_id)
    elif isinstance(error, ArgstreamError):
        logger.warning("run %s: cannot go on: %s", run_id, error)
    else:
        logger.error("run %s: cannot go on", run_id, exc_info=error)


class Recovery:
    """Recovers runs whose process has died or that have unread commands, every few seconds."""

    def __init__(self, store: Store, driving: RunSupervisor, seconds: float) -> None:
        self._store = store
        self._driving = driving
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[str, int] = {}  # runs that wait for a person, and at which record

    def begin(self) -> None:
        task = self._task
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._task = asyncio.create_task(self._keep_looking())

    async def aclose(self) -> None:
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait([task])

    async def _keep_looking(self) -> None:
        number = 0
        while True:
            try:
                await self._look_for_abandoned()
                if number % _PAUSED_EACH == 0:
                    await self._look_at_paused()
            except Exception as error:  # noqa: BLE001 - of the store, which may work again
                logger.warning("cannot look for abandoned runs: %s", error)
            number += 1
            await asyncio.sleep(self._seconds)

    async def _look_for_abandoned(self) -> None:
        for info in await self._store.runs(status="running"):
            if info.is_abandoned and self._driving.is_ours(info):
                logger.info("run %s: no process drives it, so it is resumed here", info.run_id)
                await reported(info.run_id, self._driving.go_on(info.run_id))

    async def _look_at_paused(self) -> None:
        paused = [
            info
            for info in await self._store.runs(status="paused")
            if self._driving.is_ours(info) and info.owner is None
        ]
        seen, self._seen = self._seen, {}
        for info in paused:
            if info.has_commands or info.is_abandoned:
                await reported(info.run_id, self._driving.go_on(info.run_id))
            elif seen.get(info.run_id) == info.seq or await reported(
                info.run_id, self._expect(info)
            ):
                self._seen[info.run_id] = info.seq

    async def _expect(self, info: RunInfo) -> None:
        [last] = await self._store.read(info.run_id, info.seq - 1, 1)
        if isinstance(last.event, RunPaused):
            self._driving.expect(info.run_id, last.event.pending)


class Prompts:
    """The first characters of the prompts of runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._unreadable: OrderedDict[str, float] = OrderedDict()  # and when it is tried again

    async def of(self, runs: Sequence[RunInfo]) -> list[str]:
        """Return prompts; "" for a log that cannot be read, which must not hide the others."""
        known = {info.run_id: self._known(info) for info in runs}
        unknown = [run_id for run_id, prompt in known.items() if prompt is None]
        for start in range(0, len(unknown), _PROMPTS_AT_ONCE):
            some = unknown[start : start + _PROMPTS_AT_ONCE]
            known.update(zip(some, await asyncio.gather(*map(self._read, some)), strict=True))
        return [known[info.run_id] or "" for info in runs]

    def keep(self, run_id: str, prompt: str) -> str:
        self._unreadable.pop(run_id, None)
        short = prompt[:_CHARACTERS]
        _put(self._kept, run_id, short)
        return short

    def forget(self, run_id: str) -> None:
        self._kept.pop(run_id, None)
        self._unreadable.pop(run_id, None)

    def _known(self, info: RunInfo) -> str | None:
        if (kept := self._kept.get(info.run_id)) is not None:
            self._kept.move_to_end(info.run_id)
            return kept
        tried = time.monotonic() < self._unreadable.get(info.run_id, 0.0)
        return "" if tried or not info.seq else None  # or nothing is written yet

    async def _read(self, run_id: str) -> str:
        try:
            first = await self._store.read(run_id, limit=1)
        except RunNotFoundError:  # it was deleted meanwhile
            return ""
        except StoreError as error:
            self._give_up(run_id, str(error))
            return ""
        if first and isinstance(first[0].event, RunStarted):
            return self.keep(run_id, first[0].event.prompt)
        self._give_up(run_id, "its log does not begin with the start of a run")
        return ""

    def _give_up(self, run_id: str, why: str) -> None:
        """Leave a log alone for a while. Log that once."""
        if run_id not in self._unreadable:
            logger.warning("what the run %s was asked cannot be read: %s", run_id, why)
        _put(self._unreadable, run_id, time.monotonic() + _UNREADABLE_SECONDS)


def _put(kept: OrderedDict[str, V], run_id: str, value: V) -> None:
    """Add a value as the newest, and drop the least recently used one if there are too many."""
    kept[run_id] = value
    kept.move_to_end(run_id)
    if len(kept) > _KEPT:
        kept.popitem(last=False)


def keeping(original: Any, edited: Any) -> Any:
    """Return the edited arguments, with the original form of all that is equal.

    >>> keeping({"x": 5.0, "1": "a"}, {"1": "b", "x": 5})
    {'x': 5.0, '1': 'b'}
    """
    if isinstance(original, Mapping) and isinstance(edited, Mapping):
        kept = {key: keeping(original[key], edited[key]) for key in original if key in edited}
        return kept | {key: value for key, value in edited.items() if key not in original}
    if isinstance(original, list) and isinstance(edited, list):
        kept_items = [keeping(*pair) for pair in zip(original, edited, strict=False)]
        return kept_items + edited[len(kept_items) :]
    if _is_number(original) and _is_number(edited) and original == edited:
        return original
    return edited


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _keeping_unchanged(decision: Approval, request: ApprovalRequested) -> Approval:
    if isinstance(decision, Approve) and decision.arguments is not None:
        return replace(decision, arguments=keeping(request.arguments, decision.arguments))
    return decision


async def _finished(work: Coroutine[Any, Any, T]) -> T:
    """Await work that is completed even if the client that asked for it disconnects."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_is_told_to_nobody)
        raise


def _is_told_to_nobody(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("a request of a client that disconnected failed: %s", error)


def _full(what_to_do: str) -> Problem:
    return Problem(
        503,
        "too-many-runs",
        f"the server is busy (max_running): {what_to_do} in a moment",
        {"retry-after": "5"},
    )


def _busy(run_id: str) -> Problem:
    return Problem(
        409,
        "conversation-busy",
        f"this conversation already has an active run ({run_id}). Wait until it ends, decide on "
        "its pending calls, or stop it",
    )
