"""recordings/: the tools that real requests had can be read, and their schemas be compiled.

Some providers repeat in their answers what they were asked, and the messages of a realtime session
have its tools.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from argstream.validation import Schema, tool_specs
from tests.outside.recordings import recordings


def tool_lists(value: Any) -> Iterator[list[Any]]:
    """Find every list of tools, but not those inside a tool."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "tools" and isinstance(inner, list) and inner:
                yield inner
            else:
                yield from tool_lists(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from tool_lists(inner)


def messages(data: bytes) -> Iterator[Any]:
    """Read the JSON of each line, be it of SSE or not; what has none has no tools."""
    for line in data.splitlines():
        start = line.find(b"{")
        if start >= 0 and b'"tools"' in line:
            yield json.loads(line[start:])


@pytest.fixture(scope="module")
def recorded_lists(outside_data: Path) -> dict[str, str]:
    """Each list as JSON, and one recording that has it."""
    return {
        json.dumps(tools): recording.name
        for recording in recordings(outside_data)
        for message in messages(recording.data)
        for tools in tool_lists(message)
        if all(isinstance(tool, dict) for tool in tools)  # an agent tells of names alone
    }


def test_every_list_of_tools_can_be_read(recorded_lists: dict[str, str]) -> None:
    assert len(recorded_lists) > 40
    types = set()
    for text, name in recorded_lists.items():
        tools = json.loads(text)
        types |= {tool.get("type") for tool in tools}
        for spec in tool_specs(tools):
            assert spec.name, name
            if spec.schema is not None:
                assert isinstance(spec.schema, dict), name
                Schema(spec.schema)
    assert {"function", "custom", "namespace", "tool_search", "mcp", "apply_patch"} <= types
