"""All protocols and json.loads agree on arguments, for any text and any chunking.

The oracle for whole texts is ``json.loads``; that for damaged ones is ``tests.reference``, which
shares no code with the engine.
"""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from argstream import stream
from argstream.events import ArgumentCompleted, ArgumentDelta, ToolArgsCompleted, ToolArgsDelta
from argstream.testing import cut
from tests.provider_streams import joined, of_type, only_call
from tests.reference import judge
from tests.strategies import any_texts, cuts, json_values
from tests.support import encode, replace_surrogates
from tests.turns import STREAMED, Streamed

names = st.text(max_size=5)
leaves = (st.text(max_size=9), st.integers(), st.sampled_from([True, False, None]))
arguments = st.dictionaries(names, json_values(*leaves, keys=names, max_leaves=5), max_size=4)


# Three protocols for each example: all of them get their share, and an example remains cheap.
some_turns = st.integers(0, len(STREAMED) - 1).map(lambda first: [*STREAMED, *STREAMED][first:][:3])


@given(arguments, cuts, st.booleans(), some_turns)
def test_arguments_arrive_unchanged(
    meant: Any, sizes: list[int], ascii_only: bool, turns: list[Streamed]
) -> None:
    text = json.dumps(meant, ensure_ascii=ascii_only)
    for turn in turns:
        events = stream([turn.body(*cut(text, sizes))])
        found = list(events)
        (call,) = events.calls
        assert events.protocol == turn.protocol
        assert call.verdict == "complete"
        assert call.arguments == meant
        assert call.reinterpreted is None
        assert "".join(event.delta for event in of_type(found, ToolArgsDelta)) == text
        settled = {event.path: event.value for event in of_type(found, ArgumentCompleted)}
        assert {path[0]: value for path, value in settled.items() if len(path) == 1} == meant
        grown: dict[Any, str] = {}
        for event in of_type(found, ArgumentDelta):
            grown[event.path] = grown.get(event.path, "") + event.text
        for path, text_so_far in grown.items():
            assert settled[path] == text_so_far


@given(any_texts, cuts, some_turns)
def test_verdict_is_true_for_any_text(text: str, sizes: list[int], turns: list[Streamed]) -> None:
    verdict, _ = judge(text)
    calls = [
        only_call(turn.payloads(*cut(text, sizes)))
        for turn in (STREAMED[0], *turns)
        if turn.protocol != "bedrock-invoke"  # the same payloads as Anthropic's, on another wire
    ]
    for call in calls:
        assert call.raw == replace_surrogates(text)
        if call.verdict == "complete" and call.reinterpreted is None:
            assert not text.strip() or isinstance(json.loads(text), dict)
        elif call.verdict == "complete":
            assert verdict != "complete" or not isinstance(json.loads(text), dict)
        else:
            assert call.arguments == {"INVALID_JSON": call.raw}
    assert len({(call.verdict, encode(call.arguments)) for call in calls}) == 1


@given(arguments, cuts, cuts, some_turns, st.floats(0, 1))
def test_cut_stream_never_completes_other_arguments(
    meant: Any, sizes: list[int], network: list[int], turns: list[Streamed], part: float
) -> None:
    """Invariant 8, from bytes: a complete call is whole, wherever the connection broke."""
    text = json.dumps(meant)
    for turn in turns:
        body = turn.body(*cut(text, sizes))
        end = round(part * len(body))
        events = stream(cut(body[:end], network))
        found = list(events)
        for call in events.calls:
            assert call.verdict in ("complete", "truncated")
            if call.verdict == "complete":
                assert call.arguments == meant
        assert len(of_type(found, ToolArgsCompleted)) <= 1
        assert joined(stream([body[:end]])) == joined(found)


def test_repeated_first_or_last_payload_changes_nothing() -> None:
    for turn in STREAMED:
        payloads = turn.payloads('{"a"', ": 1}")
        meant = joined(stream([turn.wire(payloads)]))
        doubled = [payload for payload in payloads for _ in range(1 + (payload is payloads[-1]))]
        if turn.protocol != "claude-agent":  # it would be another run
            assert joined(stream([turn.wire(doubled)])) == meant, turn.protocol
        started = [*payloads[:2], *payloads[1:]]
        if turn.protocol not in ("openai-chat", "langchain", "openai-realtime", "pydantic-ai"):
            assert joined(stream([turn.wire(started)])) == meant, turn.protocol


def test_array_of_payloads_is_read_in_every_protocol() -> None:
    for turn in STREAMED:
        payloads = turn.payloads('{"a"', ": 1}")
        if turn.protocol not in (
            "bedrock-invoke",
            "langchain",
        ):  # a list means something else there
            events = stream([json.dumps(payloads)])
            assert joined(events) == joined(stream(payloads)), turn.protocol
            assert events.protocol == turn.protocol
