"""Source 003: the accumulation contract, and how invalid JSON goes back to a model."""

import json
from typing import Any

import pytest

from argstream.assembly import Assembler
from argstream.events import ToolArgsCompleted
from argstream.testing import chunkings
from tests.providers import (
    anthropic_call,
    assemble,
    block_stop,
    input_json,
    message_end,
    message_start,
    of_type,
    only_call,
    tool_use,
)

POEM = json.dumps({"filename": "poem.txt", "lines_of_text": ['Roses are "red"', "é\n", ""]})


def test_contract_1_the_input_of_the_block_start_is_a_placeholder() -> None:
    assembler = Assembler("anthropic")
    assembler.feed(message_start())
    assembler.feed(tool_use(0))
    (call,) = assembler.calls
    assert (call.raw, call.arguments, call.verdict) == ("", None, "open")


def test_contract_2_fragments_are_appended() -> None:
    assembler = Assembler("anthropic")
    for payload in [message_start(), tool_use(0), input_json(0, '{"a'), input_json(0, '": 1')]:
        assembler.feed(payload)
    assert assembler.calls[0].raw == '{"a": 1'


@pytest.mark.parametrize(("name", "pieces"), list(chunkings(POEM)))
def test_contract_3_the_text_is_parsed_when_the_block_stops(name: str, pieces: list[str]) -> None:
    calls, events = assemble(anthropic_call(*pieces))
    (completed,) = of_type(events, ToolArgsCompleted)
    assert completed.arguments == calls[0].arguments == json.loads(POEM), name


def test_a_block_that_stops_without_a_fragment_has_no_arguments() -> None:
    """``json.loads("")``, which the source shows, would raise here."""
    assert only_call([message_start(), tool_use(0), block_stop(0), *message_end()]).arguments == {}


@pytest.mark.parametrize("stop_reason", ["max_tokens", "tool_use"])
def test_invalid_json_a_stream_may_end_midway_through_a_parameter(stop_reason: str) -> None:
    call = only_call(anthropic_call(POEM[:40], stop_reason=stop_reason))
    assert call.verdict == "truncated"


@pytest.mark.parametrize(
    "text", ['{"a": "b" "c"}', '{"a": "\\d"}', '{"a": "x\ny"}', '{"a": \U0001f600']
)
def test_invalid_json_goes_back_wrapped_and_properly_escaped(text: str) -> None:
    call = only_call(anthropic_call(text[:5], text[5:]))
    assert call.arguments == {"INVALID_JSON": text}
    wrapped: Any = json.loads(json.dumps(call.arguments))
    assert wrapped["INVALID_JSON"] == text
