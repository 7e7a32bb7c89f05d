"""The runs of a server: starts, resumes, decides on, stops and recovers them."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Final, NamedTuple, ParamSpec, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec.structs import replace

from argstream._asyncio import shielded
from argstream.agent import Agent, Conversation, Run
from argstream.agent.approvals import Grant
from argstream.agent.observer import ObserverLoop
from argstream.errors import AlreadyDecidedError, ArgstreamError, RunBusyError, UsageError
from argstream.events import ApprovalRequested, Event, RunFailed, RunPaused, RunStatus
from argstream.runs._records import Approval, Approve, ConversationInfo, Decisions, RunInfo
from argstream.runs._state import RunState
from argstream.runs._store import Store
from argstream.sanitise import visible_line
from argstream.server._security import Problem

_MAX_RECENT_GRANTS: Final = 500
_MAX_GRANTS: Final = 10_000
"""How many conversations keep their grants."""
_AFTER_EXPIRY: Final = 0.05
"""Seconds after an expiry until the run is resumed, because other clocks may be behind."""

logger = logging.getLogger("argstream.server")
_PAUSED_EVERY: Final = 6
"""Paused runs are checked in every sixth round of recovery."""
_MAX_KEPT: Final = 2_000
_LOOKED_UP_AT_ONCE: Final = 16
_RECENT_RUNS: Final = 100
"""How many runs are listed to find the newest run of each conversation. Others are looked up."""
_MOST_ROWS: Final = 1_000
_KEEP_DELETED: Final = 600.0
"""Seconds until a deleted conversation can no longer be restored."""

K = TypeVar("K")
V = TypeVar("V")
_MAX_CONCURRENT: Final = 10
"""How many runs of a conversation may start at the same moment."""

T = TypeVar("T")
P = ParamSpec("P")


class Driver(Protocol):
    """Begins and resumes runs."""

    name: str
    """The value of ``RunInfo.agent`` of its runs. It cannot resume others."""
    model: str
    """The name of the model, which the page shows; "" if it has none."""
    tools: Sequence[str]
    """The names of the tools, which the page shows, as far as they are known."""
    can_replace: bool
    """Whether a run may take the place of another, with the messages before that."""
    store: Store

    def begin(self, prompt: str, conversation: Conversation) -> Run:
        """Return a run that begins when its first event is requested."""

    def resume(self, info: RunInfo) -> Run | None:
        """Return a run that continues; None if this driver cannot resume runs."""

    async def conversation(self, id: str, user: str) -> Conversation:
        """Return a stored or new conversation, with the ID of its run that is not over."""

    async def load(self, run_id: str) -> "LoadedRun":
        """Read a run from the store."""

    async def stop(self, run_id: str, reason: str) -> None:
        """Stop a run, whichever process drives it. If none does, write its end."""

    async def aclose(self) -> None: ...


class LoadedRun(NamedTuple):
    """A run that was read from the store."""

    state: RunState
    check: Callable[[Decisions], None]
    """Raises ``UsageError`` if a decision could not be used."""
    run: Run | None = None
    """Resumes the run from what was read; None if its driver cannot resume runs."""


def _uninterrupted(
    work: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Let a coroutine run to its end even if the client that waits for it disconnects."""

    @wraps(work)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await shielded(work(*args, **kwargs))

    return run


class Runs:
    """The runs and conversations of a server, whichever process drives them."""

    def __init__(self, driver: Driver, *, recovery_seconds: float, max_running: int) -> None:
        self._driver = driver
        self.store = driver.store
        self.agent = driver.name
        self.model = driver.model
        self.tools = driver.tools
        self.driving = RunSupervisor(driver, max_running, recovery_seconds, self._purge)
        self._newest: WeakKeyDictionary[Conversation, str] = WeakKeyDictionary()  # when it was read
        self._over: OrderedDict[tuple[str, str], RunInfo] = OrderedDict()
        """Newest runs that are over, by user and conversation: they are not read again."""
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """Locks that keep two concurrent messages from starting a run each."""

    async def aclose(self) -> None:
        await self.driving.aclose()
        await self._driver.aclose()

    async def info(self, run_id: str, user: str) -> RunInfo:
        """Return the summary of a run. Raise Problem if there is none.

        A run of another user, or of another agent that uses the store, counts as unknown. A call
        that was approved for one agent must not be run by another.
        """
        try:
            info = await self.store.info(run_id)
        except UsageError:  # there is no such run, or the ID is not valid
            raise _unknown_run() from None
        if info.user != user or not self._is_ours(info):
            raise _unknown_run()
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
        fetch = partial(self.store.runs, status=status, conversation_id=conversation_id, user=user)
        return await _ours(lambda wanted: fetch(limit=wanted), self._is_ours, limit)

    async def newest(self, conversation_id: str, user: str) -> RunInfo | None:
        found = await self.of_user(user, limit=1, conversation_id=conversation_id)
        return found[0] if found else None

    async def newest_of(self, conversation_id: str, user: str) -> RunInfo:
        """Return the newest run of a conversation. Raise Problem if there is none."""
        newest = await self.newest(conversation_id, user)
        if newest is None:
            raise Problem(404, "unknown-conversation", "conversation not found")
        return newest

    def _is_ours(self, info: RunInfo | None) -> bool:
        return info is not None and info.agent == self.agent

    async def conversation(self, conversation_id: str, user: str) -> Conversation:
        """Return a conversation with its history. Raise Problem if a run of it is not over."""
        newest = await self.store.runs(conversation_id=conversation_id, user=user, limit=1)
        if newest and not self._is_ours(newest[0]):
            detail = "this conversation belongs to another agent. Use another ID"
            raise Problem(409, "other-agent", detail)
        conversation = await self._driver.conversation(conversation_id, user)
        if conversation.run_id is not None:
            raise _busy(conversation.run_id)
        if newest:
            self._newest[conversation] = newest[0].run_id
        return conversation

    async def conversation_before(self, run_id: str, conversation: Conversation) -> Conversation:
        """Return the conversation as it was before its newest run, which the next one replaces."""
        if not self._driver.can_replace:
            raise UsageError("this agent keeps its own history: send a new message")
        if self._newest.get(conversation) != run_id:
            detail = "only the last run of a conversation can be replaced"
            raise Problem(409, "conversation-changed", detail)
        before = (await self.store.snapshot(run_id)).history
        replaced = Conversation(before, id=conversation.id, user=conversation.user)
        replaced.grants, replaced.replaces = conversation.grants, run_id
        replaced.updated = conversation.updated
        self._newest[replaced] = run_id
        return replaced

    async def conversations(self, user: str, limit: int) -> list[tuple[ConversationInfo, RunInfo]]:
        """List the conversations of a user, those with the newest run first."""

        async def list_conversations(wanted: int) -> list[tuple[ConversationInfo, RunInfo | None]]:
            rows = await self.store.conversations(user=user, limit=wanted)
            newest = await self._newest_runs(rows, user)
            return [(row, newest.get(row.conversation_id)) for row in rows]

        found = await _ours(list_conversations, lambda pair: self._is_ours(pair[1]), limit)
        return [(row, info) for row, info in found if info is not None]

    async def _newest_runs(self, rows: Sequence[ConversationInfo], user: str) -> dict[str, RunInfo]:
        """Return the newest run of each conversation, by its ID."""
        newest: dict[str, RunInfo] = {}
        for info in await self.store.runs(user=user, limit=_RECENT_RUNS):
            newest.setdefault(info.conversation_id, info)
        others = [row for row in rows if row.conversation_id not in newest]
        for start in range(0, len(others), _LOOKED_UP_AT_ONCE):
            some = others[start : start + _LOOKED_UP_AT_ONCE]
            found = await asyncio.gather(*map(self._newest_run, some))
            newest |= {info.conversation_id: info for info in found if info is not None}
        return newest

    async def is_deleted(self, conversation_id: str, user: str) -> bool:
        return any(
            row.conversation_id == conversation_id and row.deleted_at is not None
            for row in await self.store.conversations(user=user, deleted=True, limit=_MOST_ROWS)
        )

    async def delete_conversation(self, conversation_id: str, user: str) -> None:
        """Hide a conversation. Its runs are deleted later, so that this can be undone."""
        newest = await self.newest_of(conversation_id, user)
        if newest.owner is not None and not newest.is_over:
            raise Problem(409, "run-taken", "a run is in progress. Stop it first")
        await self.store.delete_conversation(conversation_id, user=user)

    async def _purge(self) -> None:
        """Delete the runs of conversations that were deleted some time ago."""
        before = time.time() - _KEEP_DELETED
        for row in await self.store.conversations(deleted=True):
            if row.deleted_at is None or row.deleted_at > before:
                continue
            for info in await self.store.runs(conversation_id=row.conversation_id, user=row.user):
                if self._is_ours(info):
                    await await_and_log(info.run_id, self.store.delete(info.run_id))

    async def _newest_run(self, row: ConversationInfo) -> RunInfo | None:
        key = row.user, row.conversation_id
        known = self._over.get(key)
        if known is not None and known.created >= row.updated:
            self._over.move_to_end(key)
            return known
        runs = await self.store.runs(conversation_id=row.conversation_id, user=row.user, limit=1)
        if runs and runs[0].is_over:
            _put(self._over, key, runs[0], _MAX_KEPT)
        return runs[0] if runs else None

    async def pending(self, run_id: str) -> tuple[ApprovalRequested, ...]:
        return (await self.store.snapshot(run_id)).pending

    @_uninterrupted
    async def start(
        self, prompt: str, conversation: Conversation, on_inactive: Callable[[], None]
    ) -> str:
        """Start a run, and return its ID when it is in the store.

        ``on_inactive`` is called when it is no longer driven here, or could not start.
        """
        try:
            turn = (conversation.user, conversation.id)
            async with self._turns.setdefault(turn, asyncio.Lock()):
                await self._require_unchanged(conversation)
                if self.driving.is_full:
                    raise _full("retry")
                run = self._driver.begin(prompt, conversation)
                await self.driving.begin(run, on_inactive)
                await self._require_first(run.run_id, conversation)
        except BaseException:
            on_inactive()
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
            detail = "another message was sent first. Send this one again"
            raise Problem(409, "conversation-changed", detail)

    async def _require_first(self, run_id: str, conversation: Conversation) -> None:
        """If several processes started a run at the same moment, stop all but the first."""
        found = await self.store.runs(
            conversation_id=conversation.id, user=conversation.user, limit=_MAX_CONCURRENT
        )
        going = [info for info in found if not info.is_over]
        first = min(going, key=lambda info: (info.created, info.run_id), default=None)
        if first is not None and first.run_id != run_id:
            await self.stop(run_id, "another message was sent first")
            raise _busy(first.run_id)

    async def load(self, run_id: str, user: str) -> LoadedRun:
        """Read a run of a user. Raise Problem as ``info`` does."""
        try:
            loaded = await self._driver.load(run_id)
        except UsageError:
            raise _unknown_run() from None
        if loaded.state.user != user or loaded.state.agent != self.agent:
            raise _unknown_run()
        return loaded

    @_uninterrupted
    async def decide(self, loaded: LoadedRun, decisions: Decisions) -> None:
        """Decide on pending calls and resume the run.

        Raise Problem 403 for calls that are not pending. The first decision on a call counts.
        Edited arguments must be valid.
        """
        for call_id in decisions:
            call = loaded.state.calls.get(call_id)
            if call is not None and call.decision is not None:
                raise AlreadyDecidedError(call_id)
        pending = _require_pending(loaded.state.pending, decisions)
        if self.driving.is_full:
            raise _full("decide again")
        kept = {
            call_id: _keep_numbers(decision, pending[call_id])
            for call_id, decision in decisions.items()
        }
        run_id = loaded.state.run_id
        try:
            loaded.check(kept)
            await self.store.decide(run_id, kept)
        except AlreadyDecidedError:
            raise
        except UsageError:  # the request may have been withdrawn meanwhile
            _require_pending(await self.pending(run_id), decisions)
            raise
        if loaded.run is not None:
            self.driving.resume(loaded.run)

    @_uninterrupted
    async def stop(self, run_id: str, reason: str = "") -> None:
        """Stop a run. Do nothing if it has ended meanwhile."""
        try:
            await self._driver.stop(run_id, reason)
        except UsageError:
            if not (await self.store.info(run_id)).is_over:
                raise


def _require_pending(
    pending: Iterable[ApprovalRequested], decisions: Decisions
) -> Mapping[str, ApprovalRequested]:
    """Return the pending requests by call ID. Raise Problem for decisions on others."""
    waiting = {request.call_id: request for request in pending}
    for call_id, decision in decisions.items():
        request = waiting.get(call_id)
        if request is None:
            raise Problem(403, "not-pending", f"no pending approval for call {call_id!r}")
        if request.expires_at is not None and request.expires_at <= time.time():
            raise Problem(403, "expired", f"the approval request for call {call_id!r} has expired")
        if isinstance(decision, Approve) and decision.digest != request.digest:
            raise other_request(call_id)
    return waiting


async def _ours(
    fetch: Callable[[int], Awaitable[list[T]]], is_ours: Callable[[T], bool], limit: int
) -> list[T]:
    """Return up to ``limit`` of what is ours. A store lists what belongs to other agents, too."""
    wanted = limit
    while True:
        found = await fetch(wanted)
        ours = [one for one in found if is_ours(one)]
        if len(ours) >= limit or len(found) < wanted:
            return ours[:limit]
        wanted *= 4


def _unknown_run() -> Problem:
    return Problem(404, "unknown-run", "run not found")


def other_request(call_id: str) -> Problem:
    detail = f"the call {call_id!r} changed since you saw it, or the digest is wrong"
    return Problem(403, "other-request", f"{detail}. Review the call and decide again")


class AgentDriver:
    can_replace = True

    def __init__(self, agent: Agent) -> None:
        if agent.store is None:
            raise UsageError(
                "the agent has no store, which the server needs. Pass one, such as "
                'Agent(…, store="runs.db")'
            )
        self._agent = agent
        self.name = agent.name
        self.model = agent.model.name
        self.tools: Sequence[str] = agent.tools
        self.store = agent.store
        # Grants are not stored, because rules of the same name may differ in another process.
        # The grants of each conversation, by user and ID. Older ones are kept if there are any.
        self._recent_grants: OrderedDict[tuple[str, str], set[Grant]] = OrderedDict()
        self._older_grants: OrderedDict[tuple[str, str], set[Grant]] = OrderedDict()

    def begin(self, prompt: str, conversation: Conversation) -> Run:
        conversation.grants = self._grants_in(conversation)
        return self._agent.run_stream(prompt, conversation)

    def _grants_in(self, conversation: Conversation) -> set[Grant]:
        """Return the grants of a conversation. All of its runs share the set."""
        name = (conversation.user, conversation.id)
        older = self._older_grants.get(name, conversation.grants)
        grants = self._recent_grants.get(name, older)
        dropped = _put(self._recent_grants, name, grants, _MAX_RECENT_GRANTS)
        if dropped is not None and dropped[1]:
            _put(self._older_grants, *dropped, _MAX_GRANTS)
        return grants

    def resume(self, info: RunInfo) -> Run | None:
        conversation = Conversation(id=info.conversation_id, user=info.user)
        conversation.grants = self._grants_in(conversation)
        return self._agent.resume(info.run_id, conversation=conversation)

    async def conversation(self, id: str, user: str) -> Conversation:
        conversation = await self._agent.conversation(id, user=user)
        if conversation.is_fresh:  # an earlier conversation with this ID was deleted
            self._recent_grants.pop((user, id), None)
            self._older_grants.pop((user, id), None)
        return conversation

    async def load(self, run_id: str) -> LoadedRun:
        run = self._agent.resume(run_id)
        state = await run.load(self._grants_in)
        if state.mode == "observed":
            return LoadedRun(state, ObserverLoop(run_id, state).check)
        return LoadedRun(state, run.check_all, run)

    async def stop(self, run_id: str, reason: str) -> None:
        await self._agent.stop_async(run_id, reason)

    async def aclose(self) -> None:
        await self._agent.aclose()


class RunSupervisor:
    """Drives runs, each in a task.

    Every few seconds it resumes runs whose process has died or that have unread commands.
    """

    def __init__(
        self,
        driver: Driver,
        max_running: int,
        recovery_seconds: float,
        purge: Callable[[], Awaitable[None]],
    ) -> None:
        self._driver = driver
        self._store = driver.store
        self._max_running = max_running
        self._recovery_seconds = recovery_seconds
        self._purge = purge
        self._recovery: asyncio.Task[None] | None = None
        self._seen: dict[str, int] = {}  # runs that wait for a person, and at which record
        self._driven: set[str] = set()  # the ids of runs
        self._expiring: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        return len(self._driven) >= self._max_running

    def _is_ours(self, info: RunInfo) -> bool:
        """Return True for a run of our agent that is not driven here already."""
        return info.agent == self._driver.name and info.run_id not in self._driven

    async def begin(self, run: Run, on_inactive: Callable[[], None]) -> None:
        """Drive a run, and return when its beginning is in the store."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drive(run, begun).add_done_callback(lambda _: on_inactive())
        await begun

    def resume(self, run: Run) -> None:
        """Resume a loaded run, unless it is driven here.

        If the server is full or closing, recovery resumes it later.
        """
        if run.run_id not in self._driven and not (self.is_full or self._is_closed):
            _ = self._drive(run, None)

    async def _resume_undriven(self, run_id: str) -> None:
        """Resume a run, unless a process drives it. If the server is full, recovery does that."""
        info = await self._store.info(run_id)
        if info.is_over or info.owner is not None or not self._is_ours(info):
            return
        if self.is_full or self._is_closed:
            return
        run = self._driver.resume(info)
        if run is not None:
            _ = self._drive(run, None)
        elif info.is_abandoned:
            await self._driver.stop(run_id, "the process that drove the run has ended")

    def _drive(self, run: Run, begun: "asyncio.Future[None] | None") -> "asyncio.Task[None]":
        self._driven.add(run.run_id)
        return self._start_task(self._await_end(run, begun))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _await_end(self, run: Run, begun: "asyncio.Future[None] | None") -> None:
        last: Event | None = None
        try:
            last = await run.finished(begun)
        except Exception as error:  # noqa: BLE001 - raised to the waiting request, or logged
            if begun is not None and not begun.done():
                begun.set_exception(error)
            else:
                _report(run.run_id, error)
        finally:
            self._driven.discard(run.run_id)
            if begun is not None:
                begun.cancel()  # does nothing if it is done
        if isinstance(last, RunPaused):
            # A decision that arrived while this task was ending has not resumed the run.
            await await_and_log(run.run_id, self._resume_if_commands_wait(run.run_id))
            self._resume_at_expiry(run.run_id, last.pending)
        elif isinstance(last, RunFailed):
            why = visible_line(f"{last.code}: {last.message}")
            logger.warning("run %s: failed: %s", run.run_id, why)

    async def _resume_if_commands_wait(self, run_id: str) -> None:
        if (await self._store.info(run_id)).has_commands:
            await self._resume_undriven(run_id)

    def _resume_at_expiry(self, run_id: str, pending: Iterable[ApprovalRequested]) -> None:
        """Resume a paused run when the first of its approval requests expires."""
        times = [request.expires_at for request in pending if request.expires_at is not None]
        if times and run_id not in self._expiring:
            self._expiring.add(run_id)
            self._start_task(self._expire(run_id, min(times))).add_done_callback(
                lambda _: self._expiring.discard(run_id)
            )

    async def _expire(self, run_id: str, moment: float) -> None:
        await asyncio.sleep(max(moment - time.time(), 0.0) + _AFTER_EXPIRY)
        await await_and_log(run_id, self._resume_undriven(run_id))

    def begin_recovery(self) -> None:
        """Start recovery, unless it is already running."""
        self._is_closed, task = False, self._recovery
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._recovery = self._start_task(self._recover_forever())

    async def _recover_forever(self) -> None:
        number = 0
        while True:
            try:
                await self._resume_abandoned()
                if number % _PAUSED_EVERY == 0:
                    await self._check_paused()
                    await self._purge()
            except Exception as error:  # noqa: BLE001 - the store may work again later
                logger.warning("cannot look for abandoned runs: %s", visible_line(str(error)))
            number += 1
            await asyncio.sleep(self._recovery_seconds)

    async def _resume_abandoned(self) -> None:
        for info in await self._store.runs(status="running"):
            if info.is_abandoned and self._is_ours(info):
                logger.info("run %s: no process drives it, so it is resumed here", info.run_id)
                await await_and_log(info.run_id, self._resume_undriven(info.run_id))

    async def _check_paused(self) -> None:
        seen, self._seen = self._seen, {}
        for info in await self._store.runs(status="paused"):
            if info.owner is not None or not self._is_ours(info):
                continue
            if info.has_commands or info.is_abandoned:
                await await_and_log(info.run_id, self._resume_undriven(info.run_id))
            elif seen.get(info.run_id) == info.seq or await await_and_log(
                info.run_id, self._await_expiry(info)
            ):
                self._seen[info.run_id] = info.seq

    async def _await_expiry(self, info: RunInfo) -> None:
        [last] = await self._store.read(info.run_id, info.seq - 1, 1)
        if isinstance(last.event, RunPaused):
            self._resume_at_expiry(info.run_id, last.event.pending)

    async def aclose(self) -> None:
        """Stop driving. The store has what happened, so other processes can resume the runs."""
        self._is_closed = True
        here = asyncio.get_running_loop()
        tasks = [task for task in self._tasks if task.get_loop() is here]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._tasks.clear()  # tasks of other event loops have ended with them


async def await_and_log(run_id: str, work: Awaitable[None]) -> bool:
    """Await work for a run. If it fails, log why and return False."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - logged; recovery tries again
        _report(run_id, error)
        return False
    return True


def _report(run_id: str, error: Exception) -> None:
    if isinstance(error, RunBusyError):
        logger.debug("run %s: another process has resumed it", run_id)
    elif isinstance(error, ArgstreamError):
        logger.warning("run %s: cannot be resumed: %s", run_id, visible_line(str(error)))
    else:
        logger.error("run %s: cannot be resumed", run_id, exc_info=error)


def _put(kept: OrderedDict[K, V], key: K, value: V, most: int) -> tuple[K, V] | None:
    """Add a value as the newest. If there are too many, drop the least recent one and return it."""
    kept[key] = value
    kept.move_to_end(key)
    return kept.popitem(last=False) if len(kept) > most else None


def keep_numbers(original: Any, edited: Any) -> Any:
    """Return the edited arguments. Numbers that are equal keep their form, such as ``5.0``.

    >>> keep_numbers({"x": 5.0, "1": "a"}, {"1": "b", "x": 5})
    {'x': 5.0, '1': 'b'}
    """
    if isinstance(original, Mapping) and isinstance(edited, Mapping):
        kept = {key: keep_numbers(original[key], edited[key]) for key in original if key in edited}
        return kept | {key: value for key, value in edited.items() if key not in original}
    if isinstance(original, list) and isinstance(edited, list):
        kept_items = [keep_numbers(*pair) for pair in zip(original, edited, strict=False)]
        return kept_items + edited[len(kept_items) :]
    are_numbers = {type(original), type(edited)} <= {int, float}  # without bool
    return original if are_numbers and original == edited else edited


def _keep_numbers(decision: Approval, request: ApprovalRequested) -> Approval:
    if isinstance(decision, Approve) and decision.arguments is not None:
        return replace(decision, arguments=keep_numbers(request.arguments, decision.arguments))
    return decision


def _full(what_to_do: str) -> Problem:
    detail = f"the server drives too many runs (max_running): {what_to_do} in a moment"
    return Problem(503, "too-many-runs", detail, {"retry-after": "5"})


def _busy(run_id: str) -> Problem:
    what_to_do = "Wait until it ends, decide on its pending calls, or stop it"
    detail = f"this conversation already has an active run ({run_id}). {what_to_do}"
    return Problem(409, "conversation-busy", detail)
