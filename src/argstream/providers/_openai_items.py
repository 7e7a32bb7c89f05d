"""OpenAI's output items, shared by Responses, Realtime and LangChain's content.

A response is a list of items: messages, reasoning, calls. An item is added, grows by deltas, and is
done; the last event repeats the whole item.
"""

import json
from collections.abc import Hashable
from typing import Any, Final, NamedTuple

from msgspec import Struct

from argstream.history import CallKind
from argstream.providers import _deltas as d
from argstream.providers._payloads import (
    UnreadableError,
    count,
    refuse_duplicate_keys,
    text_of,
    texts_in,
    without,
)


class CallItem(NamedTuple):
    kind: CallKind
    input: str  # the field with its input
    tool: str = ""  # the name of its tool, if the item has none


# Web and file searches and images are run by OpenAI, and kept as opaque parts of the message.
CALLS: Final = {
    "function_call": CallItem("function", "arguments"),
    "mcp_call": CallItem("mcp", "arguments"),
    "custom_tool_call": CallItem("custom", "input"),
    "code_interpreter_call": CallItem("code", "code", "code_interpreter"),
    "program": CallItem("code", "code", "program"),
    "apply_patch_call": CallItem("patch", "operation", "apply_patch"),
    # The client has to answer these, except those that `call_kind` recognises as hosted.
    "shell_call": CallItem("client", "action", "shell"),
    "local_shell_call": CallItem("client", "action", "local_shell"),
    "computer_call": CallItem("client", "action", "computer"),
    "tool_search_call": CallItem("client", "arguments", "tool_search"),
    "mcp_approval_request": CallItem("client", "arguments"),
}
OUTPUTS: Final = {
    "shell_call_output": "output",
    "tool_search_output": "tools",
    "program_output": "result",
}
"""Items with the result of a call that the provider ran, and the field that holds the result."""
_COMPUTER_INPUT: Final = ("action", "actions", "pending_safety_checks")
_OBJECT_INPUTS: Final = {"shell_call", "local_shell_call", "computer_call"}
CUT: Final = {"incomplete", "cancelled", "failed", "in_progress", "queued"}
ARGUMENT_DELTAS: Final = {
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
    "response.mcp_call_arguments.delta",
    "response.code_interpreter_call_code.delta",
}
ARGUMENTS_DONE: Final = {name.replace(".delta", ".done") for name in ARGUMENT_DELTAS}
THINKING_DELTAS: Final = {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
KNOWN_TYPES: Final = {
    *ARGUMENT_DELTAS,
    *ARGUMENTS_DONE,
    *THINKING_DELTAS,
    "response.created",
    "response.output_item.added",
    "response.output_item.done",
}
"""The events of both protocols whose fields must have the right types."""
_NOT_SENT: Final = {"parsed_arguments"}  # added to an item by the SDK


class Item(Struct, eq=False):
    key: Hashable
    type: str = ""  # empty until an event has it
    call_id: str = ""
    text: str | None = None  # the whole input of a call, if it is known
    pieces: list[str] = []  # argument deltas that arrived before the type
    is_done: bool = False

    def begin(self, item: dict[str, Any]) -> list[d.Delta]:
        """Read the first event that has the type. Later ones change nothing."""
        if self.type:
            return []
        self.type = text_of(item.get("type")) or "unknown"
        if self.type == "reasoning":
            return [d.ThinkingOpened(self.key)]
        if self.type not in CALLS:
            return []
        given = call_input(item)
        if isinstance(given, str) and given:
            self.text = given
        self.call_id = call_id_of(item)
        pieces, self.pieces = self.pieces, []
        return [
            d.CallOpened(self.key, self.call_id, call_name(item), call_kind(item)),
            *(d.ArgumentText(self.key, piece) for piece in pieces if piece),
        ]

    def append_arguments(self, piece: str) -> list[d.Delta]:
        if self.type:
            return [d.ArgumentText(self.key, piece)] if piece else []
        self.pieces.append(piece)
        return []

    def end_arguments(self, name: str | None, id_: str | None, text: str | None) -> list[d.Delta]:
        """Keep the whole input. Only the end of the item or of the response shows if it was cut."""
        self.text = text or self.text
        # Some servers send no items.
        return self.begin({"type": "function_call", "name": name, "call_id": id_}) if name else []

    def take_input(self, item: dict[str, Any]) -> d.Opaque:
        """Keep the input of the whole item, if it has one; return the rest of its fields."""
        given = call_input(item)
        if isinstance(given, dict):
            given = json.dumps(given, ensure_ascii=False)
        self.text = given if isinstance(given, str) and given else self.text
        return d.Opaque(self.key, call_item_to_return(item))


def check_input(item: dict[str, Any], payload: object) -> None:
    """Raise ``UnreadableError`` if the input has a wrong type or a duplicate key."""
    types: dict[str, Any] = {"operation": str | dict, "arguments": str | dict}
    if item.get("type") in _OBJECT_INPUTS:
        types |= {"action": dict, "actions": list}
    for name, type_ in types.items():
        given = item.get(name)
        if not isinstance(given, type_ | None):
            raise UnreadableError(f"{name} must not be a {type(given).__name__}")
        if isinstance(given, dict | list):
            refuse_duplicate_keys(payload)


def id_of(item: dict[str, Any] | None) -> str:
    return text_of((item or {}).get("id"))


def ids_of(item: dict[str, Any]) -> list[str]:
    """Return all IDs of an item. The first is the one that results refer to."""
    return [id_ for id_ in (text_of(item.get("call_id")), id_of(item)) if id_]


def call_id_of(item: dict[str, Any]) -> str:
    return next(iter(ids_of(item)), "")


def call_kind(item: dict[str, Any]) -> CallKind:
    """Return the kind of a call: ``client`` without a hosted environment, so policies check it."""
    match item:
        case {"type": "shell_call", "environment": {"type": "container_reference"}}:
            return "server"
        case {"type": "tool_search_call", "execution": "server"}:
            return "server"
    return CALLS[item["type"]].kind


def call_name(item: dict[str, Any]) -> str:
    """Return the name of the tool that an item calls.

    An MCP tool that needs approval is named ``mcp__<server label>__<tool>``: policies can match
    server and tool, and a local tool cannot have the same name by accident.
    """
    name = text_of(item.get("name"))
    if item["type"] == "mcp_approval_request" and name:
        return f"mcp__{text_of(item.get('server_label'))}__{name}"
    return CALLS[item["type"]].tool or name


def call_input(item: dict[str, Any]) -> object:
    """Return the input of a call: text, an object, or None if it has none yet."""
    if item["type"] == "computer_call":
        # Older models send one action, newer ones a list. The client must see the safety checks.
        return {name: item[name] for name in _COMPUTER_INPUT if item.get(name)} or None
    return item.get(CALLS[item["type"]].input)


def call_item_to_return(item: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a call's item that must be sent back with the call.

    The request takes the input from the call's own text, so it is left out here, except for a call
    that the client answers: that item is sent back unchanged.
    """
    known = CALLS[item["type"]]
    return without(item, *_NOT_SENT, *(() if known.kind == "client" else (known.input,)))


def result(item: dict[str, Any]) -> list[d.CallResult]:
    match item:
        case {"type": "mcp_call", "id": str(id_), "error": error} if error is not None:
            return [d.CallResult(id_, error, failed=True)]
        case {"type": "mcp_call", "id": str(id_), "output": output} if output is not None:
            return [d.CallResult(id_, output)]
        case {"type": "code_interpreter_call", "id": str(id_), "outputs": outputs}:
            return [d.CallResult(id_, outputs)]
    return []


def hosted_result(key: Hashable, item: dict[str, Any], call_id: str) -> list[d.Delta]:
    """Return the result of a call that the provider ran and reported in a separate item."""
    found = item.get(OUTPUTS[item["type"]])
    failed = item.get("status") == "incomplete"
    return [d.CallResult(call_id, found, failed, key), d.Opaque(key, item)]


def item_done(key: Hashable, type_: str, item: dict[str, Any]) -> list[d.Delta]:
    """Return the deltas for a complete item that is not a call."""
    if type_ == "reasoning":
        thought = "\n\n".join(texts_in(item.get("summary")) or texts_in(item.get("content")))
        completed = d.BlockCompleted(key, thought, is_thinking=True)
        return [completed, d.Opaque(key, item), d.ThinkingClosed(key)]
    if type_ == "message":  # of speech, the transcript
        return [d.BlockCompleted(key, "".join(texts_in(item.get("content")))), d.Opaque(key, item)]
    return [d.Opaque(key, item)]


def turn_ended(status: str, details: dict[str, Any] | None) -> d.TurnEnded:
    if status in CUT:
        return d.TurnEnded(text_of((details or {}).get("reason")) or status, "cut")
    return d.TurnEnded(status, "finished" if status == "completed" else "unknown")


def tokens(usage: dict[str, Any]) -> d.Tokens:
    """Return the usage of a response. Realtime has ``token`` where Responses has ``tokens``."""
    read = usage.get("input_tokens_details") or usage.get("input_token_details")
    written = usage.get("output_tokens_details") or usage.get("output_token_details")
    return d.Tokens(
        input_tokens=count(usage, "input_tokens"),
        output_tokens=count(usage, "output_tokens"),
        cache_read_tokens=count(read, "cached_tokens"),
        reasoning_tokens=count(written, "reasoning_tokens"),
    )
