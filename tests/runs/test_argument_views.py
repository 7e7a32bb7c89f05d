"""Views of arguments, computed anew: what a log leaves out, its followers are told all the same."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from argstream import stream
from argstream.assembly import Assembler
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    Event,
    RunSnapshot,
    ToolArgsCompleted,
    ToolArgsDelta,
    ToolArgsInvalid,
    ToolCallStarted,
    TurnStarted,
)
from argstream.jsonstream import Limits
from argstream.runs import RunView, merged, with_arguments
from argstream.testing import cut
from tests.chance_runs import claude_code, runs
from tests.growth import BOUND, growth
from tests.provider_streams import anthropic_call, input_json, message_start, sse, tool_use
from tests.strategies import any_texts, cuts
from tests.turns import STREAMED, Streamed

VIEWS = (ArgumentStarted, ArgumentDelta, ArgumentCompleted)
SETTLED = (ArgumentStarted, ArgumentCompleted)


def without_views(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, VIEWS)]


def views(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, VIEWS)]


def told(payloads: Iterable[object]) -> list[Event]:
    """What is told of a turn of Anthropic's."""
    assembler = Assembler("anthropic")
    events = [event for payload in payloads for event in assembler.feed(payload)]
    return events + assembler.close()


def joined(events: Iterable[Event]) -> list[tuple[object, ...]]:
    """Views in comparable form, with neighbouring text of one argument joined."""
    found: list[tuple[object, ...]] = []
    for event in views(events):
        match event:
            case ArgumentDelta(call_id, _, path, text):
                if found and found[-1][:3] == ("text", call_id, path):
                    found[-1] = (*found[-1][:3], str(found[-1][3]) + text)
                else:
                    found.append(("text", call_id, path, text))
            case _:
                found.append((repr(event),))
    return found


# As they were told


@pytest.mark.parametrize("turn", STREAMED, ids=lambda turn: turn.protocol)
def test_they_are_what_stream_tells_of_every_protocol(turn: Streamed) -> None:
    pieces = cut('{"path": "é\\n\\ud83d\\ude00.txt", "n": [1, {"a": null}], "b": true}', [3])
    events = list(stream([turn.body(*pieces)]))
    assert views(events)
    assert list(with_arguments(without_views(events))) == events


@given(any_texts, cuts)
def test_they_are_what_is_told_of_any_text(text: str, sizes: list[int]) -> None:
    """Also of one that is no JSON, is cut, or is read in another way at its end."""
    events = told(anthropic_call(*cut(text, sizes)))
    assert list(with_arguments(without_views(events))) == events


@given(runs(crashes=False))
def test_of_a_call_that_was_refused_no_less_is_told(events: list[Event]) -> None:
    again = list(with_arguments(without_views(events)))
    assert without_views(again) == without_views(events)
    refused = {
        event.call_id
        for event in events
        if isinstance(event, ToolArgsInvalid) and event.verdict == "rejected"
    }

    def others(some: Iterable[Event]) -> list[Event]:
        return [event for event in some if getattr(event, "call_id", "") not in refused]

    assert others(again) == others(events)
    assert {repr(event) for event in events if isinstance(event, SETTLED)} <= {
        repr(event) for event in again if isinstance(event, SETTLED)
    }


def test_sub_agents_write_at_the_same_time() -> None:
    events = claude_code()
    assert list(with_arguments(without_views(events))) == events


@given(any_texts, cuts, cuts)
@example("  [0", [1, 3], [1])
def test_of_a_log_the_same_is_told_in_larger_pieces(
    text: str, sizes: list[int], batches: list[int]
) -> None:
    events = told(anthropic_call(*cut(text, sizes)))
    stored: list[Event] = []
    rest = events
    for size in [*batches, len(events)]:
        stored += merged(rest[:size])
        rest = rest[size:]
    assert joined(with_arguments(stored)) == joined(events)


def test_they_are_computed_once() -> None:
    events = told(anthropic_call('{"path": "a', '.txt"}'))
    assert list(with_arguments(events)) == events


# Where one joins


@given(any_texts, cuts, st.data())
def test_who_joins_with_a_snapshot_is_told_the_rest(
    text: str, sizes: list[int], data: st.DataObject
) -> None:
    events = told(anthropic_call(*cut(text, sizes)))
    bare = without_views(events)
    place = data.draw(st.integers(0, len(bare)))
    view = RunView()
    for event in bare[:place]:
        view.take(event)
    whole = list(with_arguments(bare))
    before = len(list(with_arguments(bare[:place])))
    snapshot, *tail = with_arguments([view.snapshot(), *bare[place:]])
    assert isinstance(snapshot, RunSnapshot)
    assert tail == whole[before:]


def test_of_a_call_whose_beginning_was_not_seen_nothing_is_told() -> None:
    tail: list[Event] = [ToolArgsDelta("c1", "write", '{"path": "a"}')]
    assert list(with_arguments(tail)) == tail


def test_a_snapshot_says_which_calls_are_over() -> None:
    view = RunView()
    for event in told(anthropic_call('{"path": "a"}')):
        view.take(event)
    late = ToolArgsDelta("toolu_1", "write", '{"path": "a"}')
    assert views(with_arguments([view.snapshot(), late])) == []


# What they are not told of


def test_free_text_has_no_arguments() -> None:
    events: list[Event] = [
        ToolCallStarted("c1", 0, "run", "code"),
        ToolArgsDelta("c1", "run", '{"a": 1}'),
        ToolArgsCompleted("c1", "run", '{"a": 1}'),
    ]
    assert list(with_arguments(events)) == events


@pytest.mark.parametrize("text", ['[{"a": 1}]', '7 {"a": 1}', '{"a": 1e999, "b": 2}', '{"a" 1}'])
def test_after_what_makes_it_no_arguments_nothing_is_told(text: str) -> None:
    events: list[Event] = [
        ToolCallStarted("c1", 0, "run"),
        ToolArgsDelta("c1", "run", text),
        ToolArgsDelta("c1", "run", ', "c": 3}'),
    ]
    found = list(with_arguments(events))
    assert [event for event in found if isinstance(event, ArgumentCompleted)] == []
    assert found[-1] == events[-1]


def test_limits_are_those_of_the_stream() -> None:
    payloads = anthropic_call('{"long": [[[1]]]}')
    limits = Limits(max_depth=2)
    assembler = Assembler("anthropic", limits=limits)
    events = [event for payload in payloads for event in assembler.feed(payload)]
    assert list(with_arguments(without_views(events), limits)) == events


# A turn that begins again


def test_the_next_attempt_is_read_from_its_own_beginning() -> None:
    lost = told([message_start(), tool_use(0), input_json(0, '{"path": "lo')])[:-2]
    again = told(anthropic_call('{"path": "kept"}'))
    events = [TurnStarted(1), *lost, TurnStarted(1, 2), *again]
    assert list(with_arguments(without_views(events))) == events


def test_what_was_being_written_is_forgotten_then() -> None:
    lost = told([message_start(), tool_use(0), input_json(0, '{"path": "lo')])[:-2]
    late = ToolArgsDelta("toolu_1", "write", 'st"}')
    assert list(with_arguments([*lost, TurnStarted(1, 2), late]))[-1] == late


# What it costs


@pytest.mark.timing
def test_the_cost_is_linear_in_the_length_of_the_arguments() -> None:
    def events_of(size: int) -> list[Event]:
        body = sse(anthropic_call(*cut('{"content": "' + "word " * size + '"}', [5])))
        return without_views(stream([body]))

    def job(size: int) -> Callable[[], object]:
        events = events_of(size)

        def read() -> None:
            for _ in with_arguments(events):
                pass

        return read

    assert growth(job, 10_000) <= BOUND
