"""Argument events are not stored. They are computed again from the other events."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from argstream import events as ev
from argstream import stream
from argstream.assembly import Assembler
from argstream.events import Event
from argstream.jsonstream import Limits
from argstream.runs import merged, with_arguments
from argstream.testing import cut
from tests.chance_runs import claude_code, runs
from tests.growth import BOUND, growth
from tests.provider_streams import anthropic_call, input_json, message_start, sse, tool_use
from tests.runs.records import snapshot_of
from tests.strategies import any_texts, cuts
from tests.turns import STREAMED, Streamed

VIEWS = (ev.ArgumentStarted, ev.ArgumentDelta, ev.ArgumentCompleted)


def without_views(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, VIEWS)]


def views(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, VIEWS)]


def events_of(payloads: Iterable[object], limits: Limits | None = None) -> list[Event]:
    """Return the events of an Anthropic turn."""
    assembler = Assembler("anthropic", limits=limits or Limits())
    events = [event for payload in payloads for event in assembler.feed(payload)]
    return events + assembler.close()


def joined(events: Iterable[Event]) -> list[tuple[object, ...]]:
    """Return the views in comparable form, with neighbouring text of one argument joined."""
    found: list[tuple[object, ...]] = []
    for event in views(events):
        match event:
            case ev.ArgumentDelta(call_id, _, path, text):
                if found and found[-1][:3] == ("text", call_id, path):
                    found[-1] = (*found[-1][:3], str(found[-1][3]) + text)
                else:
                    found.append(("text", call_id, path, text))
            case _:
                found.append((repr(event),))
    return found


@pytest.mark.parametrize("turn", STREAMED, ids=lambda turn: turn.protocol)
def test_views_of_every_protocol_are_restored(turn: Streamed) -> None:
    pieces = cut('{"path": "é\\n\\ud83d\\ude00.txt", "n": [1, {"a": null}], "b": true}', [3])
    events = list(stream([turn.body(*pieces)]))
    assert views(events)
    assert list(with_arguments(without_views(events))) == events


@given(any_texts, cuts)
def test_views_of_any_text_are_restored(text: str, sizes: list[int]) -> None:
    events = events_of(anthropic_call(*cut(text, sizes)))
    assert list(with_arguments(without_views(events))) == events
    assert list(with_arguments(events)) == events, "views that are there are not added again"


@given(runs(crashes=False))
def test_views_of_any_run_are_restored(events: list[Event]) -> None:
    """For a rejected call there may be more of them: the run stopped reading it early."""
    again = list(with_arguments(without_views(events)))
    assert without_views(again) == without_views(events)
    invalid = [event for event in events if isinstance(event, ev.ToolArgsInvalid)]
    rejected = {event.call_id for event in invalid if event.verdict == "rejected"}

    def of_other_calls(some: Iterable[Event]) -> list[Event]:
        return [event for event in some if getattr(event, "call_id", "") not in rejected]

    def settled(some: Iterable[Event]) -> set[str]:
        return {
            repr(one) for one in some if isinstance(one, ev.ArgumentStarted | ev.ArgumentCompleted)
        }

    assert of_other_calls(again) == of_other_calls(events)
    assert settled(events) <= settled(again)


def test_views_of_concurrent_sub_agents_are_restored() -> None:
    events = claude_code()
    assert list(with_arguments(without_views(events))) == events


@given(any_texts, cuts, cuts)
@example("  [0", [1, 3], [1])
def test_merged_events_give_the_same_views(text: str, sizes: list[int], batches: list[int]) -> None:
    events = events_of(anthropic_call(*cut(text, sizes)))
    stored: list[Event] = []
    rest = events
    for size in [*batches, len(events)]:
        stored += merged(rest[:size])
        rest = rest[size:]
    assert joined(with_arguments(stored)) == joined(events)


@given(any_texts, cuts, st.data())
def test_views_continue_after_a_snapshot(text: str, sizes: list[int], data: st.DataObject) -> None:
    bare = without_views(events_of(anthropic_call(*cut(text, sizes))))
    place = data.draw(st.integers(0, len(bare)))
    whole = list(with_arguments(bare))
    before = len(list(with_arguments(bare[:place])))
    _, *tail = with_arguments([snapshot_of(bare[:place]), *bare[place:]])
    assert tail == whole[before:]


@pytest.mark.parametrize("before", [[], [snapshot_of(events_of(anthropic_call('{"path": "a"}')))]])
def test_call_that_did_not_start_or_is_over_has_no_views(before: list[Event]) -> None:
    assert (
        views(with_arguments([*before, ev.ToolArgsDelta("toolu_1", "write", '{"path": "a"}')]))
        == []
    )


def test_free_text_has_no_views() -> None:
    events: list[Event] = [
        ev.ToolCallStarted("c1", 0, "run", "code"),
        ev.ToolArgsDelta("c1", "run", '{"a": 1}'),
        ev.ToolArgsCompleted("c1", "run", '{"a": 1}'),
    ]
    assert list(with_arguments(events)) == events


@pytest.mark.parametrize("text", ['[{"a": 1}]', '7 {"a": 1}', '{"a": 1e999, "b": 2}', '{"a" 1}'])
def test_invalid_arguments_have_no_further_views(text: str) -> None:
    events: list[Event] = [
        ev.ToolCallStarted("c1", 0, "run"),
        ev.ToolArgsDelta("c1", "run", text),
        ev.ToolArgsDelta("c1", "run", ', "c": 3}'),
    ]
    found = list(with_arguments(events))
    assert [event for event in found if isinstance(event, ev.ArgumentCompleted)] == []
    assert found[-1] == events[-1]


def test_limits_are_those_of_the_stream() -> None:
    limits = Limits(max_depth=2)
    events = events_of(anthropic_call('{"long": [[[1]]]}'), limits)
    assert list(with_arguments(without_views(events), limits)) == events


def test_repeated_turn_is_read_from_its_beginning() -> None:
    lost = events_of([message_start(), tool_use(0), input_json(0, '{"path": "lo')])[:-2]
    again = events_of(anthropic_call('{"path": "kept"}'))
    events = [ev.TurnStarted(1), *lost, ev.TurnStarted(1, 2), *again]
    assert list(with_arguments(without_views(events))) == events
    late = ev.ToolArgsDelta("toolu_1", "write", 'st"}')
    assert list(with_arguments([*lost, ev.TurnStarted(1, 2), late]))[-1] == late


@pytest.mark.timing
def test_cost_is_linear_in_the_length_of_the_arguments() -> None:
    def job(size: int) -> Callable[[], object]:
        body = sse(anthropic_call(*cut('{"content": "' + "word " * size + '"}', [5])))
        events = without_views(stream([body]))

        def read() -> None:
            for _ in with_arguments(events):
                pass

        return read

    assert growth(job, 2_000) <= BOUND
