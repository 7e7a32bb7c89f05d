"""recordings/: the tools, arguments and signed data of real streams, in the rest of argstream."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from argstream import stream
from argstream.events import StreamFailed, TurnCompleted
from argstream.history import CallPart, Message
from argstream.sanitise import visible
from argstream.terminal import Line, RunView
from argstream.validation import Schema, tool_specs
from tests.outside.provider_facts import measure, order_table, pieces_table, same_tool_table
from tests.outside.recordings import Recording
from tests.providers.requests import asking
from tests.providers.requests.asking import Api

pytestmark = pytest.mark.bulk

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"


def test_tables_of_the_providers_page_are_measured(all_recordings: list[Recording]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    calls = measure(all_recordings)
    for table in (pieces_table, order_table, same_tool_table):
        assert table(calls) in page, f"print the tables with python -m {measure.__module__}"


# Tools: some providers repeat the request in their answers


def tool_lists(value: Any) -> Iterator[list[Any]]:
    """Find every list of tools, but not those inside a tool."""
    members = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else members:
        if key == "tools" and isinstance(inner, list) and inner:
            yield inner
        else:
            yield from tool_lists(inner)


def test_recorded_tools_can_be_read_and_their_schemas_compiled(
    all_recordings: list[Recording],
) -> None:
    lists = {
        json.dumps(tools): recording.name
        for recording in all_recordings
        for line in recording.data.splitlines()
        if b"{" in line and b'"tools"' in line
        for tools in tool_lists(json.loads(line[line.find(b"{") :]))
        if all(isinstance(tool, dict) for tool in tools)  # an agent lists names only
    }
    assert len(lists) > 40
    types = set()
    for text, name in lists.items():
        tools = json.loads(text)
        types |= {tool.get("type") for tool in tools}
        for spec in tool_specs(tools):
            assert spec.name, name
            if spec.schema is not None:
                assert isinstance(spec.schema, dict), name
                Schema(spec.schema)
    assert {"function", "custom", "namespace", "tool_search", "mcp", "apply_patch"} <= types


def rendered(data: bytes) -> list[Line]:
    """Return the final lines, and render the others on the way as often as a screen does."""
    scene, lines = RunView(full=True), list[Line]()
    for now, event in enumerate(stream([data])):
        scene.take(event, now / 100)
        if now % 8 == 0:
            lines += scene.committed()
            assert len(scene.tail(now / 100, 40, 4)) <= 4
    scene.finish(1e6)
    assert scene.tail(1e6, 40, 4) == []
    return lines + scene.committed()


def leaves(value: Any) -> list[str]:
    if isinstance(value, str):
        return [visible(row).expandtabs(4).strip() for row in value.split("\n")]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [leaf for item in inner for leaf in leaves(item)]


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def test_terminal_shows_every_word_of_every_argument(all_recordings: list[Recording]) -> None:
    for recording in all_recordings:
        lines = [(*line.margin, *line.spans) for line in rendered(recording.data)]
        shown = "\n".join("".join(span.text for span in line) for line in lines)
        for call in recording.calls:
            words = {word for leaf in leaves(call.get("args")) for word in leaf.split()}
            missing = {word for word in words if word not in shown and quoted(word) not in shown}
            assert not missing, f"{recording.name}: {missing}"


Turns = list[tuple[Recording, list[TurnCompleted]]]
APIS: dict[str, Api] = {
    "anthropic_messages": asking.APIS["anthropic"],
    "openai_chat": asking.APIS["openai-chat"],
    "openai_responses": asking.APIS["openai-responses"],
}
# Strings that the provider requires back byte for byte.
SEALED = {
    "anthropic_messages": ("signature", "data", "encrypted_content", "encrypted_index"),
    "openai_chat": ("thought_signature", "signature", "data"),
    "openai_responses": ("encrypted_content",),
}


def body(api: Api, *answers: Message) -> Any:
    """Return a request after an answer, or after a paused one and its continuation."""
    calls = [part for part in answers[-1].parts if isinstance(part, CallPart)]
    own = [part for part in calls if part.kind not in ("server", "mcp", "code")]
    results = [asking.result("done", part.call_id) for part in own]
    return asking.body(api, asking.user("hi"), *answers, asking.user(*results, "Go on."), tools=())


def sealed(value: object, names: tuple[str, ...]) -> set[str]:
    """Return all strings in a body under one of these names."""
    match value:
        case dict():
            own = {text for name, text in value.items() if name in names and isinstance(text, str)}
            return own.union(*(sealed(inner, names) for inner in value.values()))
        case list():
            return set().union(*(sealed(inner, names) for inner in value))
        case _:
            return set()


def recorded_seals(recording: Recording) -> set[str]:
    """Return such strings of the recorded bytes, and of items only when they are done."""
    text = recording.data.decode(errors="replace")
    if recording.protocol == "openai_responses":
        text = "\n".join(line for line in text.splitlines() if "output_item.done" in line)
    names = "|".join(SEALED[recording.protocol])
    found = re.findall(rf'"(?:{names})": ?("(?:[^"\\]|\\.)+")', text)
    return {json.loads(one) for one in found}


@pytest.fixture(scope="module")
def turns(all_recordings: list[Recording]) -> Turns:
    """Return the turns of each recording of these APIs; none if it failed."""
    found = []
    for recording in all_recordings:
        if recording.protocol in APIS:
            events = list(stream([recording.data]))
            failed = any(isinstance(event, StreamFailed) for event in events)
            completed = [event for event in events if isinstance(event, TurnCompleted)]
            found.append((recording, [] if failed else completed))
    return found


def test_turn_can_be_sent_to_any_api_without_the_seals_of_another(turns: Turns) -> None:
    sent_back = 0
    for recording, completed in turns:
        for turn in completed:
            for protocol, api in APIS.items():
                sent = body(api, turn.message)
                if protocol == recording.protocol:
                    sent_back += 1
                else:
                    assert not sealed(sent, SEALED[recording.protocol]), (recording.name, protocol)
    assert sent_back > 150


def test_signed_and_encrypted_data_is_sent_back_unchanged(turns: Turns) -> None:
    by_name = {recording.name: completed for recording, completed in turns}
    count = 0
    for recording, completed in turns:
        if len(completed) != 1:
            continue
        paused = recording.name.replace("vcr.1.", "vcr.")
        before = by_name.get(paused, []) if paused != recording.name else []
        messages = [turn.message for turn in before if turn.stop_reason == "pause_turn"]
        sent = body(APIS[recording.protocol], *messages, completed[0].message)
        wanted = recorded_seals(recording)
        missing = wanted - sealed(sent, SEALED[recording.protocol])
        assert not missing, (recording.name, [text[:40] for text in missing])
        count += len(wanted)
    assert count > 50
