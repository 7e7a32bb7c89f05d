"""recordings/: what a provider said goes back to it whole, with all that it signed or encrypted."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from argstream import ModelRequest, stream
from argstream.events import StreamFailed, TurnCompleted
from argstream.history import CallPart, Message, ResultPart, TextPart
from argstream.providers.anthropic_requests import AnthropicApi
from argstream.providers.openai_requests import ChatApi, ResponsesApi
from tests.outside.recordings import Recording, recordings

pytestmark = pytest.mark.bulk

Api = AnthropicApi | ChatApi | ResponsesApi
APIS: dict[str, Api] = {
    "anthropic_messages": AnthropicApi(),
    "openai_chat": ChatApi(),
    "openai_responses": ResponsesApi(),
}
# Strings of which the provider wants each byte back.
SEALED = {
    "anthropic_messages": ("signature", "data", "encrypted_content", "encrypted_index"),
    "openai_chat": ("thought_signature", "signature", "data"),
    "openai_responses": ("encrypted_content",),
}


def turns(recording: Recording) -> list[TurnCompleted]:
    events = list(stream([recording.data]))
    if any(isinstance(event, StreamFailed) for event in events):
        return []  # an agent would not go on
    return [event for event in events if isinstance(event, TurnCompleted)]


def body(api: Api, *answers: Message) -> dict[str, Any]:
    """A request after an answer, or after one that paused and what came next."""
    question = Message(role="user", parts=(TextPart(text="hi"),))
    calls = [part for part in answers[-1].parts if isinstance(part, CallPart)]
    results = tuple(
        ResultPart(call_id=part.call_id, result="done")
        for part in calls
        if part.kind not in ("server", "mcp", "code")  # the provider runs these itself
    )
    last = Message(role="user", parts=(*results, TextPart(text="Go on.")))
    return api.body("some-model", ModelRequest(messages=(question, *answers, last)))


def sealed(value: object, names: tuple[str, ...]) -> set[str]:
    """All texts in a body under one of these names."""
    match value:
        case dict():
            own = {text for name, text in value.items() if name in names and isinstance(text, str)}
            return own.union(*(sealed(inner, names) for inner in value.values()))
        case list():
            return set().union(*(sealed(inner, names) for inner in value))
        case _:
            return set()


def wanted(recording: Recording) -> set[str]:
    """The same, of the recorded bytes; what was said of an item before it was done is not it."""
    text = recording.data.decode(errors="replace")
    if recording.protocol == "openai_responses":
        text = "\n".join(line for line in text.splitlines() if "output_item.done" in line)
    names = "|".join(SEALED[recording.protocol])
    found = re.findall(rf'"(?:{names})": ?("(?:[^"\\]|\\.)+")', text)
    return {json.loads(one) for one in found}


@pytest.fixture(scope="module")
def ours(outside_data: Path) -> list[Recording]:
    return [one for one in recordings(outside_data) if one.protocol in APIS]


def test_every_turn_can_go_back_to_its_provider(ours: list[Recording]) -> None:
    sent = [body(APIS[one.protocol], turn.message) for one in ours for turn in turns(one)]
    assert len(sent) > 150


def test_what_was_signed_or_encrypted_goes_back_unchanged(ours: list[Recording]) -> None:
    by_name = {recording.name: recording for recording in ours}
    count = 0
    for recording in ours:
        found = turns(recording)
        if len(found) != 1:
            continue
        paused = by_name.get(recording.name.replace("vcr.1.", "vcr."), recording)
        before = [turn.message for turn in turns(paused) if turn.stop_reason == "pause_turn"]
        if paused is recording:
            before = []
        sent = body(APIS[recording.protocol], *before, found[0].message)
        missing = wanted(recording) - sealed(sent, SEALED[recording.protocol])
        assert not missing, (recording.name, [text[:40] for text in missing])
        count += len(wanted(recording))
    assert count > 50


def test_every_turn_can_go_to_any_other_api(ours: list[Recording]) -> None:
    for recording in ours:
        for turn in turns(recording):
            for protocol, api in APIS.items():
                sent = body(api, turn.message)
                if protocol != recording.protocol:
                    assert not sealed(sent, SEALED[recording.protocol]), (recording.name, protocol)
