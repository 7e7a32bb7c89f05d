"""What LangChain's messages come in, and what of them is read.

A message is an object, a dict, or a line of JSON, as ``model_dump`` or ``dumps`` writes it. Around
it may be its metadata (LangGraph), the name of a stream mode, or an event of ``astream_events``.
What LangGraph's server calls ``messages/partial`` is not read: guesses at all that came so far.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from argstream.adapters._endings import KNOWN_REASONS
from argstream.adapters._payloads import PayloadReader, UnreadableError, text_of

__all__ = [
    "CHUNK",
    "CallPiece",
    "Message",
    "Unwrapped",
    "WholeCall",
    "WholeMessage",
    "read_chunk",
    "read_line",
    "read_whole",
    "reason_of",
    "type_of",
    "unwrapped",
]

CHUNK: Final = "AIMessageChunk"


class CallPiece(Struct, gc=False):
    """A piece of a call."""

    name: str | None = None
    args: str | dict[str, Any] | None = None
    id: str | int | None = None
    index: int | str | None = None


class Message(Struct, gc=False):
    """A chunk of a message."""

    type: str = ""
    id: Any = None
    content: str | list[Any] | None = None
    tool_call_chunks: list[CallPiece] | None = None
    additional_kwargs: dict[str, Any] | None = None
    response_metadata: dict[str, Any] | None = None
    usage_metadata: dict[str, Any] | None = None
    chunk_position: str | None = None


class _Text(Message, gc=False):
    """A line of JSON: a message, or what ``dumps`` makes of one, or something around one."""

    kwargs: Message | None = None


class WholeCall(Struct, gc=False):
    """A call that was not streamed; if it is invalid, its arguments are text."""

    name: str | None = None
    args: dict[str, Any] | str | None = None
    id: str | int | None = None


class WholeMessage(Message, gc=False):
    """A message that was not streamed, or the result of a tool."""

    tool_calls: list[WholeCall] | None = None
    invalid_tool_calls: list[WholeCall] | None = None
    tool_call_id: str | None = None
    status: str | None = None


_VITAL: Final = {"tool_call_chunks", "args", "index", "content", "kwargs"}
_KNOWN: Final = {CHUNK, "ai", "constructor"}
_read_text = PayloadReader(_Text, vital=_VITAL, known=_KNOWN)
_pick_chunk = PayloadReader(Message, vital=_VITAL, known=_KNOWN)
read_whole = PayloadReader(
    WholeMessage, vital={*_VITAL, "tool_calls", "invalid_tool_calls"}, known=_KNOWN
)


def read_chunk(payload: Any) -> Message:
    """Read an object or a dict."""
    fields = payload if type(payload) is dict else getattr(payload, "__dict__", None)
    if not fields:
        return _pick_chunk(payload)
    get = fields.get
    pieces, content, metadata = get("tool_call_chunks"), get("content"), get("response_metadata")
    # Nearly every one is a chunk with one piece, which needs no picking.
    if (
        type(pieces) is list
        and len(pieces) == 1
        and type(piece := pieces[0]) is dict
        and type(args := piece.get("args")) is str
        and type(index := piece.get("index")) is int
        and piece.get("name") is None
        and piece.get("id") is None
        and type(content) in (str, list)
        and type(metadata) is dict
        and not get("additional_kwargs")
        and get("usage_metadata") is None
        and get("chunk_position") is None
    ):
        found = [CallPiece(None, args, None, index)]
        return Message(CHUNK, get("id"), content, found, None, metadata)
    return _pick_chunk(payload)


def read_line(payload: bytes | bytearray | str) -> object:
    """Read JSON: a chunk into its struct, anything else as it is."""
    if payload[:1] in (b"[", "["):
        return _decoded(payload)  # a message and its metadata
    try:
        found = _read_text(payload)
    except UnreadableError:
        if isinstance(value := _decoded(payload), list):
            return value
        raise
    if found.type == CHUNK and found.tool_call_chunks is not None:
        return found
    if found.kwargs is not None and found.kwargs.type == CHUNK:
        return found.kwargs
    return _decoded(payload)


def _decoded(payload: bytes | bytearray | str) -> object:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:  # which forgives half a surrogate pair
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"no JSON: {error}") from error


class Unwrapped(NamedTuple):
    """A message that was inside of something else."""

    message: Any
    """None, if there was none, or none that has not come before."""
    writer: str = ""
    """The run or the node that writes it, if that was told."""
    is_end: bool = False
    """Whether it is all that has been streamed, once more."""


def unwrapped(payload: Any) -> Unwrapped:
    """Take a message out of what is around it."""
    writer = ""
    is_end = False
    while True:
        inner: Any = None
        match payload:
            case {"event": "on_chat_model_stream", "data": {"chunk": inner}}:
                writer = text_of(payload.get("run_id"))
            case {"event": "on_chat_model_end", "data": {"output": inner}}:
                writer = text_of(payload.get("run_id"))
                is_end = True
            case {"event": "on_tool_end", "data": {"output": inner}}:
                pass
            case {"event": str()}:
                return Unwrapped(None)
            case {"lc": _, "kwargs": inner}:
                pass
            case {"type": "messages", "data": inner}:
                pass
            case {"type": str(), "data": {**inner}}:  # of message_to_dict
                pass
            # Of several stream modes, or of LangGraph's server, as ``StreamPart`` has it.
            case [str(mode), inner] | [str(mode), inner, _] | [[*_], str(mode), inner]:
                if mode.partition("|")[0] != "messages":
                    return Unwrapped(None)
            case [str(), *_]:
                return Unwrapped(None)
            case [[] | [str(), *_], [_, {}] as inner]:  # of a graph inside of another
                pass
            case [inner, {**metadata}] if not type_of(metadata):
                writer = text_of(metadata.get("langgraph_checkpoint_ns")) or writer
            case [*_]:
                return Unwrapped(None)
            case _:
                return Unwrapped(payload, writer, is_end)
        payload = inner


def type_of(payload: object) -> str:
    """Give the type of a message, empty if it is none."""
    given = getattr(payload, "type", None)
    if given is None and isinstance(payload, Mapping):
        given = payload.get("type")
    return text_of(given)


# In the words of OpenAI, Anthropic, Google, Bedrock, Cohere, Ollama and their like.
_REASONS: Final = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_TELLING: Final = {*_REASONS, "status"}
_NO_REASON: Final = {"", "null", "none", "finish_reason_unspecified"}
_STATUSES: Final = {"completed", "incomplete", "failed", "cancelled"}  # of OpenAI Responses


def reason_of(metadata: dict[str, Any] | None) -> str | None:
    """Give the reason why a message ended, in the words of its provider."""
    if not metadata or _TELLING.isdisjoint(metadata):
        return None
    for name in _REASONS:
        reason = _once(metadata.get(name))
        if reason.lower() not in _NO_REASON:
            return reason
    status = _once(metadata.get("status"))
    if status not in _STATUSES:
        return None
    details = metadata.get("incomplete_details")
    return (_once(details.get("reason")) if isinstance(details, dict) else "") or status


def _once(word: object) -> str:
    """Give a word once: where LangChain adds chunks up, it joins what comes again."""
    if not isinstance(word, str):
        return ""
    first = word[: (word + word).find(word, 1)]
    return first if first.lower() in KNOWN_REASONS | _NO_REASON else word
