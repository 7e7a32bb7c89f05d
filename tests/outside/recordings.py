"""recordings/: the calls of each recorded stream, from INDEX.tsv."""

import json
import os
from collections.abc import Iterator, Sequence
from csv import DictReader
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argstream.assembly import Call
from argstream.providers import ProtocolName

PROTOCOLS: dict[str, set[ProtocolName]] = {
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

# Calls that INDEX.tsv does not list: it was made before these items were read as calls.
_SEARCH = "openai_responses/pydantic-ai__test_tool_search_test_openai_native_tool_search_streaming"
UNLISTED = {
    "openai_responses/langchain__openai_test_tool_search_streaming.sse": ["tool_search"],
    f"{_SEARCH}.sse": ["tool_search"],
    "openai_responses/vercel-ai__responses_openai-tool-search.1.jsonl": ["tool_search"],
    "openai_responses/vercel-ai__responses_programmatic-tool-calling.1.jsonl": ["program"],
}


def outside_data(name: str) -> Path:
    """Return where a folder of outside data is expected."""
    shared = Path(__file__).parents[3] / "shared"
    return Path(os.environ.get("ARGSTREAM_OUTSIDE_DATA", shared)) / name


@dataclass(frozen=True)
class Recording:
    """One recorded stream, and the calls in it."""

    name: str
    protocol: str
    data: bytes
    calls: list[dict[str, Any]]
    stops: list[str]


def recordings(folder: Path) -> Iterator[Recording]:
    with (folder / "INDEX.tsv").open(encoding="utf-8", newline="") as index:
        # The fields are JSON; the table has no quoting.
        for row in DictReader(index, delimiter="\t", quoting=3):
            data = (folder / row["file"]).read_bytes()
            calls = json.loads(row["final_args"])
            yield Recording(row["file"], row["protocol"], data, calls, row["stop"].split("|"))


def actual(call: Call) -> dict[str, Any]:
    """Return our call in the form of ``expected``."""
    status = {"complete": "ok", "truncated": "invalid"}.get(call.verdict, call.verdict)
    if call.verdict == "complete" and call.kind in ("custom", "code"):
        status = "text"
    arguments = call.raw if status == "invalid" else call.arguments
    own = {"id": call.id, "name": call.name, "kind": call.kind}
    return {**own, "status": status, "arguments": arguments}


def expected(recording: Recording, found: Sequence[Call]) -> list[dict[str, Any]]:
    """Return the calls of the index in the order of ours, with our id where it has none.

    The index groups the calls of an agent by its sub-agents; ours are in the order of arrival.
    """
    calls = recording.calls
    if recording.protocol == "claude_agent_sdk":
        places = {call.id: place for place, call in enumerate(found)}
        calls = sorted(calls, key=lambda call: places[call["id"]])
    return [_expected(call, ours) for call, ours in zip(calls, found, strict=True)]


def _expected(call: dict[str, Any], found: Call) -> dict[str, Any]:
    status = call["status"]
    arguments: Any = {"empty": {}, "ok": call.get("args")}.get(status, call.get("text"))
    own = {"id": call["id"] or found.id, "name": call["name"], "kind": call["kind"]}
    return {**own, "status": "ok" if status == "empty" else status, "arguments": arguments}
