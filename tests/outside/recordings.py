"""recordings/: what each stream must give, from its INDEX.tsv."""

import json
from collections.abc import Iterator, Sequence
from csv import DictReader
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argstream.assembly import Call
from tests.support import program_is_missing

PROTOCOLS = {
    "anthropic_messages": {"anthropic", "bedrock-invoke"},
    "bedrock_converse": {"bedrock", "bedrock-invoke"},
    "claude_agent_sdk": {"claude-agent"},
    "cohere_v2": {"cohere"},
    "gemini": {"gemini"},
    "gemini_interactions": {"gemini-interactions"},
    "gemini_live": {"gemini-live"},
    "ollama_chat": {"ollama"},
    "openai_chat": {"openai-chat"},
    "openai_realtime": {"openai-realtime"},
    "openai_responses": {"openai-responses"},
    "xai_grpc": {"xai-grpc"},
}


@dataclass(frozen=True)
class Recording:
    """One recorded stream, and the calls in it."""

    name: str
    protocol: str
    data: bytes
    calls: list[dict[str, Any]]
    stops: list[str]


def recordings(outside_data: Path) -> Iterator[Recording]:
    """Read every recording."""
    folder = outside_data / "recordings"
    if not folder.is_dir():
        program_is_missing(f"outside data is absent: {folder}")
    with (folder / "INDEX.tsv").open(encoding="utf-8", newline="") as index:
        # The fields are JSON: no quoting of the table's own.
        for row in DictReader(index, delimiter="\t", quoting=3):
            yield Recording(
                row["file"],
                row["protocol"],
                (folder / row["file"]).read_bytes(),
                json.loads(row["final_args"]),
                row["stop"].split("|"),
            )


UNLISTED = {
    "openai_responses/langchain__openai_test_tool_search_streaming.sse": ["tool_search"],
    "openai_responses/pydantic-ai__test_tool_search_test_openai_native_tool_search_streaming.sse": [
        "tool_search"
    ],
    "openai_responses/vercel-ai__responses_openai-tool-search.1.jsonl": ["tool_search"],
    "openai_responses/vercel-ai__responses_programmatic-tool-calling.1.jsonl": ["program"],
}
"""Calls that INDEX.tsv does not list: it was made before these items were read as calls."""


def split_unlisted(calls: Sequence[Call], recording: Recording) -> tuple[list[Call], list[Call]]:
    """Return the calls that the index can list, and the others."""
    unlisted = UNLISTED.get(recording.name, [])
    return (
        [call for call in calls if call.name not in unlisted],
        [call for call in calls if call.name in unlisted],
    )


def shown(call: Call) -> dict[str, Any]:
    """What the index says of a call, as we have it."""
    status = {"complete": "ok", "truncated": "invalid"}.get(call.verdict, call.verdict)
    if call.verdict == "complete" and call.kind in ("custom", "code"):
        status = "text"
    return {
        "id": call.id,
        "name": call.name,
        "kind": call.kind,
        "status": status,
        "arguments": call.raw if status == "invalid" else call.arguments,
    }


def expected(call: dict[str, Any], found: Call) -> dict[str, Any]:
    """What the index says, in the same form. It has no id where the provider sent none."""
    status = call["status"]
    return {
        "id": call["id"] or found.id,
        "name": call["name"],
        "kind": call["kind"],
        "status": "ok" if status == "empty" else status,
        "arguments": {"empty": {}, "ok": call.get("args")}.get(status, call.get("text")),
    }


def in_order_of(found: Sequence[Call], recording: Recording) -> list[dict[str, Any]]:
    """Give the calls of the index in the order of ours.

    The index has the calls of an agent grouped by who made them, ours are as they came.
    """
    if recording.protocol != "claude_agent_sdk":
        return recording.calls
    places = {call.id: place for place, call in enumerate(found)}
    return sorted(recording.calls, key=lambda call: places[call["id"]])
