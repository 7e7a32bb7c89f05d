"""LangChain message chunks, of any provider.

The pieces of a call are ``tool_call_chunks``, assigned to calls as in OpenAI Chat. A chunk also has
``tool_calls``, which are guesses at unfinished JSON, and pieces of the same calls in its content,
in the provider's form. Neither is read.

- Only the end of a message closes its calls: a stop reason in ``response_metadata``, as the
  provider named it, or ``chunk_position="last"``, a regular end without a reason.
- A whole message may be the sum of chunks that were cut. Its last call may be a guess, unless the
  stop reason says that nothing was cut, or the tool was executed.
- The ID of a message changes. One chunk has the provider's ID (``resp_…``), later chunks have the
  ID of LangChain's run (``lc_run-…``). So a message has one ID of each kind, except that each part
  may have its own ID of the provider (``msg_…``, with ``output_version="v0"``).
- Usage is reported in parts, which must be added up.
- A message arrives as an object, as a dict, serialised by ``dumps``, with metadata (LangGraph and
  its server), or in an event of ``astream_events``. Nodes may run in parallel, and so may several
  models in one node.
"""

from collections.abc import Hashable, Mapping
from typing import Any, Final

from msgspec import Struct

from argstream.history import CallKind
from argstream.providers import _deltas as d
from argstream.providers import _openai_items as items
from argstream.providers._payloads import (
    PayloadReader,
    UnreadableError,
    count,
    decoded,
    has_failed,
    index_of,
    joined,
    text_of,
    texts_in,
    total,
)
from argstream.providers._stop_reasons import KNOWN_REASONS, ending_of
from argstream.providers._tool_calls import CallFinder, Entry, EntryFunction

_CHUNK: Final = "AIMessageChunk"
_VITAL: Final = "tool_call_chunks args index content kwargs"
_KNOWN_TYPES: Final = {_CHUNK, "ai", "constructor"}
# The fields of OpenAI, Anthropic, Google, Bedrock, Cohere, Ollama and others.
_REASONS: Final = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_REASON_FIELDS: Final = {*_REASONS, "status"}
_NO_REASON: Final = {"", "null", "none", "finish_reason_unspecified"}
_STATUSES: Final = {"completed", "incomplete", "failed", "cancelled"}  # of OpenAI Responses
_THOUGHTS: Final = {"thinking", "redacted_thinking", "reasoning", "reasoning_content"}
_READ_ELSEWHERE: Final = {"tool_use", "tool_call", "tool_call_chunk", "function_call"}
_RUN_BY_PROVIDER: Final[dict[str, CallKind]] = {
    "server_tool_use": "server",
    "mcp_tool_use": "mcp",
    "server_tool_call": "server",
    "server_tool_call_chunk": "server",
}
# OpenAI items, sent once when they are done. The other two are in ``tool_call_chunks``.
_WHOLE_CALLS: Final = items.CALLS.keys() - {"function_call", "custom_tool_call"}
_WRAPPED: Final = {*_RUN_BY_PROVIDER, *_WHOLE_CALLS, *items.OUTPUTS}
# Fields of a block that arrive in pieces.
_GROWING: Final = {
    "thinking",
    "reasoning",
    "text",
    "signature",
    "data",
    "encrypted_content",
    "content",
}
_CONTAINERS: Final = (dict, list, tuple)


class _CallPiece(Struct, gc=False):
    """A piece of a call, or a call that was not streamed. Arguments that are invalid are text."""

    name: str | None = None
    args: str | dict[str, Any] | None = None
    id: str | int | None = None
    index: int | str | None = None


class _Message(Struct, gc=False):
    type: str = ""
    id: Any = None
    content: str | list[Any] | None = None
    tool_call_chunks: list[_CallPiece] | None = None
    additional_kwargs: dict[str, Any] | None = None
    response_metadata: dict[str, Any] | None = None
    usage_metadata: dict[str, Any] | None = None
    chunk_position: str | None = None


class _Text(_Message, gc=False):
    """A line of JSON: a message, one serialised by ``dumps``, or a wrapper of one."""

    kwargs: _Message | None = None


class _WholeMessage(_Message, gc=False):
    """A message that was not streamed, or the result of a tool."""

    tool_calls: list[_CallPiece] | None = None
    invalid_tool_calls: list[_CallPiece] | None = None
    tool_call_id: str | None = None
    status: str | None = None


_read_text = PayloadReader(_Text, vital=_VITAL, known_types=_KNOWN_TYPES)
_read_chunk = PayloadReader(_Message, vital=_VITAL, known_types=_KNOWN_TYPES)
_read_whole = PayloadReader(
    _WholeMessage, vital=f"{_VITAL} tool_calls invalid_tool_calls", known_types=_KNOWN_TYPES
)


class LangChainDecoder(d.ProviderDecoder):
    """LangChain's messages → deltas."""

    protocol = "langchain"

    def __init__(self) -> None:
        self._turns = d.ParallelTurns()
        # The writer of a message is its run or node, if known.
        self._messages: dict[str, _MessageState] = {}  # by each of their IDs
        self._newest: dict[str, _MessageState] = {}  # by writer
        self._open: list[_MessageState] = []  # messages that are being streamed
        self._without_run: dict[str, list[_MessageState]] = {}  # run ID not known yet, by writer
        self._owners: dict[str, _MessageState] = {}  # by call ID
        self._count = 0

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of a payload: bytes, a message, or a wrapper of LangGraph."""
        given = payload
        if isinstance(payload, bytes | bytearray | str):
            payload = _read_line(payload)
            if isinstance(payload, _Message):
                return self._read_chunk(payload, "", given)
        writer = ""
        is_end = False
        if isinstance(payload, _CONTAINERS):
            payload, writer, is_end = _unwrap_message(payload)
            if not _type_of(payload):
                return []
        if is_end and writer in self._newest:
            return self._close_streamed(self._newest[writer])
        if _type_of(payload) != _CHUNK:
            return self._read_whole(_read_whole(payload), writer, given)
        message = _read_chunk(payload)
        if is_end:
            if known := self._messages.get(text_of(message.id)):
                return self._close_streamed(known)
            message.chunk_position = "last"
        return self._read_chunk(message, writer, given)

    def interrupt(self) -> list[d.Delta]:
        """Return the buffered deltas after a payload was lost."""
        return [delta for state in self._open for delta in self._flush(state)]

    def implicit_closes(self) -> list[d.CallClosed]:
        """Return a close for each call that was followed by another call."""
        return [closed for state in self._open for closed in state.calls.implicit_closes()]

    def close(self) -> list[d.Delta]:
        """Return the deltas that are known only at the end of the stream."""
        deltas: list[d.Delta] = []
        for state in list(self._open):
            deltas += self._close_streamed(state) if state.ended else self._flush(state)
        for writer in self._newest:
            deltas += self._close_as_cut(writer)
        return deltas

    def _read_chunk(self, message: _Message, writer: str, payload: object) -> list[d.Delta]:
        before: list[d.Delta] = []
        state = self._messages.get(message.id) if type(message.id) is str else None
        if state is None or state.closed:
            state, before = self._find(message, writer)
            if state is None:
                return []
        deltas: list[d.Delta] = []
        known = state.calls.count
        state.read(message, deltas)
        if state.calls.count != known:
            state.ended = False  # the end did not include the new calls
            self._register_calls(state, deltas)
        state.calls.check_values(payload)
        if message.response_metadata and (reason := _reason_of(message.response_metadata)):
            state.end(reason, deltas)
        if state.number != self._turns.current:
            deltas = self._emit(state, deltas)
        if message.chunk_position == "last":
            deltas += self._close_streamed(state)
        return before + deltas if before else deltas

    def _read_whole(self, message: _WholeMessage, writer: str, payload: object) -> list[d.Delta]:
        if message.type == "tool":
            return self._result(message)
        if message.type != "ai" or text_of(message.id) in self._messages:
            return []  # a prompt, or the repetition of a streamed message
        calls: list[_CallPiece] = []
        if not message.tool_call_chunks:
            # The last call may be a guess. Invalid calls are never guesses, so they come first.
            calls = [*(message.invalid_tool_calls or ()), *(message.tool_calls or ())]
        if calls and all(call.id in self._owners for call in calls):
            return []  # a copy of a message that was read before
        state, before = self._new(message, writer)
        state.closed = True
        deltas: list[d.Delta] = []
        state.read(message, deltas)
        for call in calls:
            state.call(None, call, deltas)
        state.flush(deltas)
        self._register_calls(state, deltas)
        state.calls.check_values(payload)
        reason = _reason_of(message.response_metadata)
        if calls and ending_of(reason) == "unknown":
            deltas += state.calls.implicit_closes()
            state.reason = reason
            state.is_unverified = True
            return before + self._emit(state, deltas)
        state.end(reason, deltas)
        return before + self._emit(state, deltas) + self._close_message(state)

    def _find(self, message: _Message, writer: str) -> "tuple[_MessageState | None, list[d.Delta]]":
        """Return the message of a chunk, None for a late empty chunk, and the deltas before it."""
        id_ = text_of(message.id)
        writes = bool(message.tool_call_chunks or message.content)
        if id_ not in self._messages:
            if found := self._find_open(_id_kind(id_), writer, writes=writes):
                self._add_id(found, id_)
                return found, []
            is_late = not id_ and writer in self._newest
        else:
            is_late = True
        if is_late and not writes:
            return None, []
        state, before = self._new(message, writer)
        self._open.append(state)
        if _id_kind(id_) != "run":
            self._without_run.setdefault(writer, []).append(state)
        return state, before

    def _find_open(self, kind: str, writer: str, *, writes: bool) -> "_MessageState | None":
        """Find the message that a new ID of this kind can belong to."""
        if kind != "run":
            newest = self._newest.get(writer)
            return newest if newest and newest.accepts(kind, writes=writes) else None
        known = [
            one for one in self._without_run.pop(writer, ()) if one.accepts(kind, writes=False)
        ]
        if not known:
            return None
        self._without_run[writer] = known
        free = [state for state in known if state.accepts(kind, writes=writes)]
        # Prefer a message that has ended. Otherwise, runs continue in the order of their start.
        return next((state for state in free if state.ended), free[0] if free else None)

    def _new(self, message: _Message, writer: str) -> "tuple[_MessageState, list[d.Delta]]":
        before = self._close_as_cut(writer)
        for state in [state for state in self._open if state.ended]:
            before += self._close_streamed(state)  # only its usage could still follow
        self._count += 1
        id_ = text_of(message.id)
        metadata = message.response_metadata or {}
        model = text_of(metadata.get("model_name")) or text_of(metadata.get("model"))
        state = _MessageState(self._count, d.TurnOpened(id_, model))
        self._newest[writer] = state
        self._add_id(state, id_)
        return state, before

    def _add_id(self, state: "_MessageState", id_: str) -> None:
        if id_:
            state.kinds.append(_id_kind(id_))
            self._messages[id_] = state

    def _register_calls(self, state: "_MessageState", deltas: list[d.Delta]) -> None:
        for delta in deltas:
            if isinstance(delta, d.CallOpened):
                state.last_call = delta.id
                if delta.id:
                    self._owners[delta.id] = state

    def _emit(self, state: "_MessageState", deltas: list[d.Delta]) -> list[d.Delta]:
        return self._turns.emit(state.number, state.with_opening(deltas)) if deltas else []

    def _flush(self, state: "_MessageState") -> list[d.Delta]:
        deltas: list[d.Delta] = []
        state.flush(deltas)
        return self._emit(state, deltas)

    def _close_streamed(
        self, state: "_MessageState", ending: d.Ending | None = None
    ) -> list[d.Delta]:
        if state.closed:
            return []
        state.closed = True
        self._open.remove(state)
        return self._close_message(state, ending)

    def _close_message(
        self, state: "_MessageState", ending: d.Ending | None = None
    ) -> list[d.Delta]:
        state.is_unverified = False
        deltas: list[d.Delta] = []
        if not state.ended:
            state.end(state.reason, deltas, ending)
        self._register_calls(state, deltas)
        deltas.append(d.TurnClosed())
        return self._turns.emit_last(state.number, state.with_opening(deltas))

    def _close_as_cut(self, writer: str) -> list[d.Delta]:
        """Close a whole message as cut, because nothing shows that its last call is complete."""
        state = self._newest.get(writer)
        return self._close_message(state, "cut") if state and state.is_unverified else []

    def _result(self, message: _WholeMessage) -> list[d.Delta]:
        """Read a result. It shows that the message with the call is complete."""
        call_id = message.tool_call_id or ""
        failed = message.status == "error"
        ending: d.Ending = "cut" if failed else "finished"
        deltas: list[d.Delta] = []
        owner = self._owners.pop(call_id, None)  # a later call may reuse the ID
        if owner is not None and owner.is_unverified:
            if call_id == owner.last_call:
                deltas = self._close_message(owner, ending)
        elif owner is not None:
            deltas = self._close_streamed(owner, ending)
        return deltas + self._turns.switch_to(
            None, [d.CallResult(call_id, message.content, failed)]
        )


class _MessageState:
    def __init__(self, number: int, opening: d.TurnOpened) -> None:
        self.number = number
        self.calls = CallFinder()
        self.last_call = ""  # ID
        self.kinds: list[str] = []  # of its IDs
        self.reason: str | None = None
        self.ended = False  # whether TurnEnded was emitted
        self.closed = False
        self.is_unverified = False  # whether it is a whole message that may be cut
        self.tokens = d.Tokens()
        self._opening: d.TurnOpened | None = opening
        self._content = _ContentReader(self.calls)
        self._indexes: dict[str, int] = {}

    def with_opening(self, deltas: list[d.Delta]) -> list[d.Delta]:
        opening, self._opening = self._opening, None
        return deltas if opening is None else [opening, *deltas]

    def accepts(self, kind: str, *, writes: bool) -> bool:
        """Return True if a chunk with a new ID of this kind can belong to this message."""
        if self.closed or (self.ended and writes):
            return False
        if kind == "run" and writes and self.calls.count:
            return False  # its content arrives under the provider's ID
        # A message under the ID of its run may have parts with IDs, whose chunks are empty.
        is_part = kind == "own" and not writes and self.kinds[:1] == ["run"]
        return kind not in self.kinds or is_part

    def read(self, message: _Message, deltas: list[d.Delta]) -> None:
        content, reader = message.content, self._content
        if message.additional_kwargs:
            thought = message.additional_kwargs.get("reasoning_content")
            if isinstance(thought, str) and thought:
                reader.append_text(thought, "thinking", deltas)
            outputs = message.additional_kwargs.get("tool_outputs")  # OpenAI, in older versions
            if isinstance(outputs, list):
                reader.blocks(outputs, deltas)
        if content:
            if isinstance(content, str):
                reader.append_text(content, "text", deltas)
            else:
                reader.blocks(content, deltas)
        if message.tool_call_chunks:
            reader.end(deltas)
            for chunk in message.tool_call_chunks:
                self.call(chunk.index, chunk, deltas)
        if message.usage_metadata:
            self._add(message.usage_metadata)
            deltas.append(d.UsageReported(self.tokens))

    def call(self, index: int | str | None, piece: _CallPiece, deltas: list[d.Delta]) -> None:
        if isinstance(index, str):
            # A number as text equals the number. Other indexes are names (``lc_tc_1``).
            given = index
            index = self._indexes.get(given)
            if index is None:
                index = int(given) if given.isdecimal() else -1 - len(self._indexes)
                self._indexes[given] = index
        function = EntryFunction(piece.name, piece.args)
        self.calls.read(Entry(index, piece.id, None, function), deltas)

    def flush(self, deltas: list[d.Delta]) -> None:
        self._content.end(deltas)
        self.calls.flush(deltas)

    def end(
        self, reason: str | None, deltas: list[d.Delta], ending: d.Ending | None = None
    ) -> None:
        """End the turn, once. Without a reason it is not known whether something was cut."""
        self.flush(deltas)
        if self.ended:
            return
        self.ended = True
        ending = ending or ending_of(reason)
        if ending == "cut":
            deltas += self.calls.implicit_closes()
        deltas.append(d.TurnEnded(reason, ending))

    def _add(self, usage: dict[str, Any]) -> None:
        part = d.Tokens(
            input_tokens=count(usage, "input_tokens"),
            output_tokens=count(usage, "output_tokens"),
            cache_read_tokens=count(usage, "input_token_details", "cache_read"),
            cache_write_tokens=count(usage, "input_token_details", "cache_creation"),
            reasoning_tokens=count(usage, "output_token_details", "reasoning"),
        )
        self.tokens = d.Tokens(*map(total, self.tokens, part))


def _id_kind(id_: str) -> str:
    if not id_:
        return ""
    return "run" if id_.startswith(("lc_run-", "run-")) else "own"


class _ContentReader(d.Blocks):
    def __init__(self, finder: CallFinder) -> None:
        super().__init__("block")
        self._finder = finder
        self._pieces: list[dict[str, Any]] = []  # of a block that must be sent back
        self._calls: dict[Hashable, Hashable] = {}  # keys of calls by block index

    def blocks(self, blocks: list[Any], deltas: list[d.Delta]) -> None:
        for block in blocks:
            if isinstance(block, str):
                if block:
                    self.append_text(block, "text", deltas)
            elif isinstance(block, dict):
                inner = _unwrap_block(block)
                self._read(inner, text_of(inner.get("type")), index_of(block), deltas)

    def end(self, deltas: list[d.Delta]) -> None:
        if self._pieces:
            deltas.append(d.Opaque(self.key, joined(self._pieces, _GROWING)))
            self._pieces = []
        super().end(deltas)

    def _read(
        self, block: dict[str, Any], type_: str, index: Hashable, deltas: list[d.Delta]
    ) -> None:
        if type_ == "text" or type_ == "refusal":
            text = block.get("text") or block.get("refusal")
            if isinstance(text, str) and text:
                deltas.append(d.TextPiece(self.key_for("text", deltas, index), text))
        elif type_ in _THOUGHTS:
            key = self.key_for("thinking", deltas, index)
            if not self._pieces:
                deltas.append(d.ThinkingOpened(key))
            self._pieces.append(block)
            if thought := _thinking_text(block):
                deltas.append(d.ThinkingPiece(key, thought))
        elif type_ == "input_json_delta":
            piece = block.get("partial_json")
            if index in self._calls and isinstance(piece, str) and piece:
                deltas.append(d.ArgumentText(self._calls[index], piece))
        elif type_ in _RUN_BY_PROVIDER:
            self._server_call(block, index, _RUN_BY_PROVIDER[type_], deltas)
        elif type_ in _WHOLE_CALLS:
            self._whole_call(block, deltas)
        elif type_ in items.OUTPUTS:
            self.end(deltas)
            deltas += items.hosted_result(("result", index), block, text_of(block.get("call_id")))
        elif call_id := text_of(block.get("tool_use_id")) or text_of(block.get("tool_call_id")):
            self.end(deltas)
            content = block["output"] if "output" in block else block.get("content")
            failed = block.get("status") == "error" or has_failed({**block, "content": content})
            deltas.append(d.CallResult(call_id, content, failed, ("result", index)))
        elif type_ not in _READ_ELSEWHERE:
            self.key_for("other", deltas, index)
            self._pieces.append(block)

    def _server_call(
        self, block: dict[str, Any], index: Hashable, kind: CallKind, deltas: list[d.Delta]
    ) -> None:
        key = self._calls.get(index) if index is not None else None
        if key is None or block.get("name"):
            self.end(deltas)
            key = self._calls[index] = ("server", len(self._calls), text_of(block.get("id")))
            name = text_of(block.get("name"))
            deltas.append(d.CallOpened(key, text_of(block.get("id")), name, kind))
        # While the call is streamed, also in a sum of chunks, its input is an empty object.
        given = block.get("args") or block.get("input") or block.get("partial_json")
        if isinstance(given, str):
            deltas.append(d.ArgumentText(key, given))
        elif given:
            deltas.append(d.ArgumentValue(key, (), given))
            self._finder.has_values = True

    def _whole_call(self, block: dict[str, Any], deltas: list[d.Delta]) -> None:
        self.end(deltas)
        id_ = items.call_id_of(block)
        key = ("server", len(self._calls), id_)
        self._calls[key] = key
        deltas.append(d.CallOpened(key, id_, items.call_name(block), items.call_kind(block)))
        given = items.call_input(block)
        if isinstance(given, dict):
            deltas.append(d.ArgumentValue(key, (), given))
            self._finder.has_values = True
        cut = block.get("status") == "incomplete"
        deltas += [d.CallClosed(key, text_of(given), cut), *items.result(block)]


def _read_line(payload: bytes | bytearray | str) -> object:
    """Decode JSON: a chunk into its struct, which is quicker, anything else into plain values."""
    if payload[:1] in (b"[", "["):
        return decoded(payload)  # a message and its metadata
    try:
        found = _read_text(payload)
    except UnreadableError:
        if isinstance(value := decoded(payload), list):
            return value
        raise
    if found.type == _CHUNK and found.tool_call_chunks is not None:
        return found
    if found.kwargs is not None and found.kwargs.type == _CHUNK:
        return found.kwargs
    return decoded(payload)


def _unwrap_message(payload: Any) -> tuple[Any, str, bool]:
    """Return the message or None, its writer, and whether it repeats a whole streamed message."""
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
                return None, "", False
            case {"lc": _, "kwargs": inner} | {"type": "messages", "data": inner}:
                pass
            case {"type": str(), "data": {**inner}}:  # from message_to_dict
                pass
            # From several stream modes, or LangGraph's server (``StreamPart``).
            case [str(mode), inner] | [str(mode), inner, _] | [[*_], str(mode), inner]:
                if mode.partition("|")[0] != "messages":
                    return None, "", False
            case [str(), *_]:
                return None, "", False
            case [[] | [str(), *_], [_, {}] as inner]:  # from a nested graph
                pass
            case [inner, {**metadata}] if not _type_of(metadata):
                writer = text_of(metadata.get("langgraph_checkpoint_ns")) or writer
            case [*_]:
                return None, "", False
            case _:
                return payload, writer, is_end
        payload = inner


def _type_of(payload: object) -> str:
    given = getattr(payload, "type", None)
    if given is None and isinstance(payload, Mapping):
        given = payload.get("type")
    return text_of(given)


def _reason_of(metadata: dict[str, Any] | None) -> str | None:
    if not metadata or _REASON_FIELDS.isdisjoint(metadata):
        return None
    for name in _REASONS:
        reason = _dedupe(metadata.get(name))
        if reason.lower() not in _NO_REASON:
            return reason
    status = _dedupe(metadata.get("status"))
    if status not in _STATUSES:
        return None
    details = metadata.get("incomplete_details")
    return (_dedupe(details.get("reason")) if isinstance(details, dict) else "") or status


def _dedupe(word: object) -> str:
    """Remove repetitions of a word: LangChain concatenates repeated values when it adds chunks."""
    if not isinstance(word, str):
        return ""
    first = word[: (word + word).find(word, 1)]
    return first if first.lower() in KNOWN_REASONS | _NO_REASON else word


def _unwrap_block(block: dict[str, Any]) -> dict[str, Any]:
    """Return the call or result that LangChain wrapped in a non-standard block."""
    value = block.get("value") if block.get("type") == "non_standard" else None
    return value if isinstance(value, dict) and text_of(value.get("type")) in _WRAPPED else block


def _thinking_text(block: dict[str, Any]) -> str:
    match block:
        case {"thinking": str(text)} | {"reasoning": str(text)}:
            return text
        case {"reasoning_content": {"text": str(text)}}:  # Bedrock
            return text
        case {"summary": [*parts]} | {"content": [*parts]}:  # OpenAI
            return "".join(texts_in(parts))
    return ""
