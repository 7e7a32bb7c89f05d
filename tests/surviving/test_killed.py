"""kill -9 at the writes of a run: nothing is lost, nothing is done twice, and the run finishes.

Kills at every thirtieth write or fewer, with all variants over SQLite and one over Redis and a
Redis cluster. ``make soak-properties`` (ARGSTREAM_HYPOTHESIS=soak) kills at every write over all.
"""

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor as Pool
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from argstream import events as ev
from argstream.events import Event
from argstream.history import TextPart
from argstream.runs import Record
from tests.agent.following import only
from tests.agent.histories import check_history, check_told, results_of
from tests.agent.ordering import check_order
from tests.runs.records import contiguous, folded
from tests.runs.redis_server import RedisCluster, new_prefix
from tests.surviving.attempts import (
    Attempt,
    Attempts,
    Passage,
    lose_node,
    process_pool,
    take_over,
)
from tests.surviving.worker import DONE, IDEMPOTENT, STREAMED, USER, Execution, Place

IS_SOAK = os.environ.get("ARGSTREAM_HYPOTHESIS") == "soak"
STEP, LARGER_STEP = (1, 1) if IS_SOAK else (30, 60)
# On a slow machine a run has more points, since its lease is renewed more often.
MOST = 100_000 if IS_SOAK else 240
SAMPLES = 150 if IS_SOAK else 3
# A lower bound of the number of kill points. A slow store has fewer, since it writes more at once.
POINTS = {"sqlite": 120, "redis": 40, "cluster": 40}
# The same for suspensions, which happen only between transactions: there are about 16 such points,
# since deltas are written together, and fewer on a slow machine.
SUSPENSIONS = 9
INTERRUPTED = (
    "the call was interrupted: the program ended while it ran. It is not known what it has done; it"
    " was not run again"
)

# make soak-properties runs tests with this mark. A busy machine may need minutes.
pytestmark = [pytest.mark.hypothesis, pytest.mark.timeout(0 if IS_SOAK else 300)]
all_kinds = pytest.mark.parametrize("kind", POINTS if IS_SOAK else ["sqlite"])


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with process_pool() as pool:
        yield pool


@pytest.mark.parametrize("kind", POINTS)
def test_run_survives_a_kill_at_any_write(pool: Pool, kind: str, tmp_path: Path) -> None:
    attempts = Attempts(pool, kind, "letters", tmp_path)
    assert attempts.play_every(range(1, MOST, STEP), check) >= POINTS[kind]


@all_kinds
@pytest.mark.parametrize("story", ["decided", "stopped", "drafts"])
def test_variants_survive_a_kill(pool: Pool, story: str, kind: str, tmp_path: Path) -> None:
    """With decisions while it goes on, with a stop, and with a tool that begins early."""
    attempts = Attempts(pool, kind, story, tmp_path)
    assert attempts.play_every(range(2, MOST, LARGER_STEP), check) >= POINTS[kind]


@all_kinds
def test_run_survives_kills_of_two_processes(pool: Pool, kind: str, tmp_path: Path) -> None:
    """At two of the points, and at any two moments."""
    chance, most = random.Random(7), 2 * POINTS[kind]
    points = [[chance.randint(1, most), chance.randint(1, most)] for _ in range(SAMPLES)]
    moments = [[chance.uniform(0, 0.3), chance.uniform(0, 0.3)] for _ in range(SAMPLES)]
    attempts = Attempts(pool, kind, "letters", tmp_path)
    assert max(attempt.kills for attempt in attempts.play(points, check)) == 2
    assert max(attempt.kills for attempt in attempts.play(moments, check)) > 0


@all_kinds
def test_process_that_lost_its_lease_does_nothing(pool: Pool, kind: str, tmp_path: Path) -> None:
    attempts = Attempts(pool, kind, "letters", tmp_path)
    points = range(1, MOST) if IS_SOAK else range(3, 61, 3)
    assert attempts.play_every(points, check_continued, take_over) >= SUSPENSIONS


@pytest.mark.parametrize("seconds", [n / 20 for n in range(20)] if IS_SOAK else [0.2])
def test_run_survives_the_loss_of_a_node(pool: Pool, seconds: float, tmp_path: Path) -> None:
    """The replica of the node takes over. The run continues, or another process resumes it."""
    with RedisCluster() as cluster:
        attempt = Attempt(Place(cluster.url, new_prefix()), tmp_path, "letters")
        node = random.Random(seconds).choice(cluster.nodes[:3])
        check(pool.submit(lose_node, attempt, node.pid, seconds).result())


# What must hold of each log on the way, and of the last


def check(attempt: Attempt) -> None:
    for passage in attempt.passages:
        check_passage(passage, attempt.traces.shown(passage.number))
    if not attempt.log:
        return  # the process was killed before the run began
    for killed, following in pairwise(attempt.passages):
        if killed.was_killed:
            check_takeover(killed, following)
    events = events_of(attempt.log)
    check_order(events, streamed=STREAMED, idempotent=IDEMPOTENT)
    check_executions(events, attempt.traces.executed)
    check_end(attempt, events)
    check_conversation(attempt, events)


def check_continued(attempt: Attempt) -> None:
    """Check that a suspended process did nothing after others had ended its run."""
    if not attempt.passages:
        return  # there was no run to take over
    check(attempt)
    first, last = attempt.passages[0], attempt.passages[-1]
    assert attempt.traces.executed == last.executed, "it starts no tool"
    assert attempt.read_log() == last.after, "it writes nothing"
    ending = attempt.traces.ending(1)
    assert ending is not None
    was_paused = folded(first.after).status == "paused"
    outcomes = {"LeaseLostError", "RunBusyError", "StoreError", *(["paused"] if was_paused else [])}
    assert ending.outcome in outcomes


def events_of(records: Iterable[Record]) -> list[Event]:
    return [record.event for record in records]


def check_passage(passage: Passage, shown: list[Event]) -> None:
    before, after = passage.before, passage.after
    assert after[: len(before)] == before, "a log only grows"
    assert contiguous(after)
    assert is_prefix(shown, events_of(after[len(before) :])), "what was shown is in the log"
    started = Counter(event.call_id for event in only(events_of(after), ev.ToolExecutionStarted))
    done = Counter(execution.call_id for execution in passage.executed)
    assert done <= started, "nothing is done before the log says that it begins"


def is_prefix(shown: Iterable[Event], written: Iterable[Event]) -> bool:
    """Return True if the log begins with the shown events, however their text is cut."""
    some = list(in_letters(shown))
    return list(in_letters(written))[: len(some)] == some


def in_letters(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of a log, with a delta for each character."""
    for event in (event for event in events if not event.is_computed):
        field = "delta" if isinstance(event, ev.ToolArgsDelta) else "text"
        text = getattr(event, field) if event.is_delta else ""
        yield from (replace(event, **{field: letter}) for letter in text)
        if not event.is_delta:
            yield event


def check_takeover(killed: Passage, following: Passage) -> None:
    """Check that the next process says that it resumes the run. RunOrder checks the rest."""
    new = events_of(following.after[len(following.before) :])
    if not new:
        assert following.was_killed, "a process that is not killed resumes the run"
    elif following.knew_of_stop or not isinstance(new[0], ev.RunResumed):
        assert isinstance(new[-1], ev.RunStopped), (
            "the run was to be stopped, so nothing else begins"
        )
        assert not [one for one in new if isinstance(one, ev.ToolExecutionStarted | ev.TurnStarted)]
    else:
        was_paused = folded(killed.after).status == "paused"
        assert new[0].cause == ("pause" if was_paused else "crash")


def check_executions(events: list[Event], executed: list[Execution]) -> None:
    """Check that tools ran at most once, and that the log agrees."""
    started = only(events, ev.ToolExecutionStarted)
    keys = {event.call_id: event.idempotency_key for event in started}
    assert len(set(keys.values())) == len(keys), "each call has its own key"
    assert all(event.idempotency_key == keys[event.call_id] for event in started)
    assert all(one.key == keys[one.call_id] for one in executed)
    done = Counter(one.call_id for one in executed if one.name not in IDEMPOTENT)
    assert all(times == 1 for times in done.values()), "nothing is done twice"
    completed = {event.call_id for event in only(events, ev.ToolCallCompleted)}
    assert completed <= {one.call_id for one in executed}


def check_end(attempt: Attempt, events: list[Event]) -> None:
    """Check that the run was completed, with all that could be done, or stopped."""
    last = events[-1]
    if attempt.traces.was_stopped:
        assert isinstance(last, ev.RunStopped)
    if isinstance(last, ev.RunStopped):
        assert last.reason == "enough"
        return
    assert isinstance(last, ev.RunCompleted)
    assert last.result == DONE
    assert {event.decision for event in only(events, ev.ApprovalDecided)} <= {
        "approved",
        "withdrawn",
    }
    interrupted = {
        call_id for event in only(events, ev.RunResumed) for call_id in event.interrupted
    }
    failed = [one for one in only(events, ev.ToolCallFailed) if one.error == INTERRUPTED]
    assert {event.call_id for event in failed} <= interrupted
    for result in (one for message in attempt.messages() for one in results_of(message)):
        assert not result.failed or result.call_id in interrupted


def check_conversation(attempt: Attempt, events: list[Event]) -> None:
    """Check that each request to the model and the final conversation are well-formed."""
    messages = attempt.messages()
    check_history(messages, is_over=True)
    check_told(messages, events)
    ending = attempt.traces.ending(len(attempt.passages))
    if ending is not None:
        assert (ending.messages, ending.user) == (messages, USER), "as read from the log"
    for asked in attempt.traces.asked:
        check_history(asked)
        check_told(asked, events)
    parts = [part for message in messages for part in message.parts]
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    notes = [event.note for event in only(events, ev.RunResumed) if event.note]
    assert [text for text in texts if text in notes] == notes
