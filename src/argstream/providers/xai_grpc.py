"""xAI's own API: the chunks of ``xai.api.v1``, as protobuf messages or as JSON.

One response may have several outputs: the model calls a tool that xAI runs, the result of the tool
is a separate output, and the model continues in the next one. All of that is one turn, which does
not end with calls that xAI runs. Calls arrive whole and are identified by their IDs. A call that
xAI runs is announced, and repeated with its status when it has ended. Usage is cumulative over all
outputs, and in every chunk.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from msgspec import Struct, to_builtins

from argstream.history import CallKind
from argstream.providers import _deltas as d
from argstream.providers._payloads import PayloadReader, failure, fields_of
from argstream.providers._stop_reasons import ending_of

_NO_REASON: Final = {"", "REASON_INVALID"}
_CLIENT_SIDE: Final = {"", "TOOL_CALL_TYPE_INVALID", "TOOL_CALL_TYPE_CLIENT_SIDE_TOOL"}
_ENDED: Final = {"TOOL_CALL_STATUS_COMPLETED", "TOOL_CALL_STATUS_FAILED"}
_TOOL: Final = "ROLE_TOOL"


class _Function(Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(Struct, gc=False):
    id: str | None = None
    type: str = ""
    status: str = ""
    error_message: str = ""
    function: _Function | None = None


class _Message(Struct, gc=False):
    """The ``delta`` of an output, or the ``message`` of one that was not streamed."""

    role: str = ""
    content: str = ""
    reasoning_content: str = ""
    encrypted_content: str = ""
    tool_calls: list[_ToolCall] | None = None
    citations: list[Any] | None = None


class _Output(Struct, gc=False):
    index: int = 0
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: str | None = None


class _Usage(Struct, gc=False):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_prompt_text_tokens: int = 0


class _Chunk(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    outputs: list[_Output] | None = None
    usage: _Usage | None = None
    citations: list[Any] | None = None
    output_files: list[Any] | None = None
    error: Any = None


_read = PayloadReader(
    _Chunk,
    vital="outputs index delta message role content reasoning_content encrypted_content tool_calls "
    "function arguments status",
)

_NOTHING: Final = _Message()


class _Call(NamedTuple):
    key: tuple[int, int]
    arguments: str


class _OutputState(Struct, eq=False):
    is_tool: bool  # whether it is the result of a tool
    has_thought: bool = False
    thinking: bool = False
    encrypted: list[str] = []
    citations: list[Any] = []
    kinds: set[CallKind] = set()  # of its calls
    reason: str = ""  # finish reason

    @property
    def runs_tools(self) -> bool:
        """Whether xAI runs all of its calls, so that another output follows."""
        return bool(self.kinds) and "function" not in self.kinds

    @property
    def ends_turn(self) -> bool:
        return bool(self.reason) and not (self.reason == "REASON_TOOL_CALLS" and self.runs_tools)


class XaiGrpcDecoder(d.ProviderDecoder):
    """Chunks of xAI's own API → deltas."""

    protocol = "xai-grpc"

    def __init__(self) -> None:
        self._id = ""
        self._outputs: dict[int, _OutputState] = {}  # of the open turn; empty if none is open
        self._last = 0  # index of the latest output
        self._calls: dict[str, _Call] = {}  # by ID
        self._count = 0  # of calls

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of a payload: bytes, a dict, a protobuf message, or an SDK object."""
        chunk = _read(_unwrapped(payload))
        deltas: list[d.Delta] = []
        if chunk.error:
            return [failure(chunk.error, "code")]
        if chunk.outputs and not (self._outputs and chunk.id in (self._id, None)):
            deltas += self.close()
            self._id = chunk.id or ""
            deltas.append(d.TurnOpened(self._id, chunk.model or ""))
        if chunk.usage is not None and chunk.usage.prompt_tokens:
            deltas.append(d.UsageReported(_tokens(chunk.usage)))
        is_response = False
        for output in chunk.outputs or ():
            is_response = is_response or output.message is not None
            self._read_output(output, output.delta or output.message or _NOTHING, deltas)
        if chunk.citations:
            deltas.append(d.Opaque("citations", {"citations": chunk.citations}))
        if chunk.output_files:
            deltas.append(d.Opaque("output_files", {"output_files": chunk.output_files}))
        return deltas + self.close() if is_response else deltas

    def close(self) -> list[d.Delta]:
        """Return the deltas that are known only at the end of the stream."""
        deltas: list[d.Delta] = []
        for index, state in self._outputs.items():
            _end_output(index, state, deltas)
        last = self._outputs.get(self._last)
        # After calls that xAI runs, there may be no finish reason.
        is_whole = all(
            one.is_tool or one.reason or one.runs_tools for one in self._outputs.values()
        )
        if last is not None and last.ends_turn and is_whole:
            deltas.append(d.TurnClosed())
        self._outputs, self._calls = {}, {}
        return deltas

    def _read_output(self, output: _Output, message: _Message, deltas: list[d.Delta]) -> None:
        index = self._last = output.index
        state = self._outputs.get(index)
        if state is None:
            state = self._outputs[index] = _OutputState(is_tool=message.role == _TOOL)
        if state.is_tool:
            self._read_tool_output(index, state, message, deltas)
        else:
            self._read_model_output(index, state, message, deltas)
        if output.finish_reason and output.finish_reason not in _NO_REASON and not state.reason:
            state.reason = output.finish_reason
            _end_output(index, state, deltas)
            if state.ends_turn:
                ending = ending_of(state.reason)
                deltas.append(d.TurnEnded(state.reason, ending, index))

    def _read_model_output(
        self, index: int, state: _OutputState, message: _Message, deltas: list[d.Delta]
    ) -> None:
        if message.encrypted_content:
            state.encrypted.append(message.encrypted_content)
        if message.reasoning_content or message.encrypted_content:
            if not state.has_thought:
                state.has_thought = state.thinking = True
                deltas.append(d.ThinkingOpened((index, "thinking")))
            if message.reasoning_content:
                deltas.append(d.ThinkingPiece((index, "thinking"), message.reasoning_content))
        if message.citations:
            state.citations += message.citations
        if message.content:
            _stop_thinking(index, state, deltas)
            deltas.append(d.TextPiece((index, "text"), message.content))
        if message.tool_calls:
            _stop_thinking(index, state, deltas)
            for entry in message.tool_calls:
                self._read_call(index, state, entry, deltas)

    def _read_call(
        self, index: int, state: _OutputState, entry: _ToolCall, deltas: list[d.Delta]
    ) -> None:
        """Read a call: a new one, or one that was announced before."""
        function = entry.function or _Function()
        arguments = function.arguments or ""
        kind = _kind(entry.type)
        state.kinds.add(kind)
        call = self._calls.get(entry.id or "")
        # An entry with the same ID usually repeats the call.
        if call is None or (call.arguments and arguments and arguments != call.arguments):
            call = _Call((index, self._count), arguments)
            self._count += 1
            if entry.id:
                self._calls[entry.id] = call
            deltas.append(d.CallOpened(call.key, entry.id or "", function.name or "", kind))
            if kind != "function":  # the type must be sent back
                deltas.append(d.Opaque(call.key, {"type": entry.type}))
            if arguments:
                deltas.append(d.ArgumentText(call.key, arguments))
        if arguments or kind == "function":  # xAI may announce its calls without arguments
            is_cut = entry.status == "TOOL_CALL_STATUS_INCOMPLETE"
            deltas.append(d.CallClosed(call.key, arguments, is_cut))

    def _read_tool_output(
        self, index: int, state: _OutputState, message: _Message, deltas: list[d.Delta]
    ) -> None:
        for entry in message.tool_calls or ():
            self._read_call(index, state, entry, deltas)
            if entry.id and entry.status in _ENDED:
                failed = entry.status == "TOOL_CALL_STATUS_FAILED"
                result = (entry.error_message if failed else "") or message.content or None
                block = (index, "result", entry.id)
                deltas.append(d.CallResult(entry.id, result, failed, block))
                deltas.append(d.Opaque(block, _message_to_return(message, entry)))


def _kind(type_: str) -> CallKind:
    if type_ in _CLIENT_SIDE:
        return "function"
    return "mcp" if "MCP" in type_ else "server"


def _message_to_return(message: _Message, entry: _ToolCall) -> dict[str, Any]:
    """Return the result of a tool as the message that must be sent back."""
    content, encrypted = message.content, message.encrypted_content
    kept = {"role": _TOOL, "tool_calls": [to_builtins(entry)], "content": content}
    kept["encrypted_content"] = encrypted
    return {name: value for name, value in kept.items() if value}


def _stop_thinking(index: int, state: _OutputState, deltas: list[d.Delta]) -> None:
    if state.thinking:
        state.thinking = False
        deltas.append(d.ThinkingClosed((index, "thinking")))


def _end_output(index: int, state: _OutputState, deltas: list[d.Delta]) -> None:
    """Add the deltas that are known only at the end of an output."""
    _stop_thinking(index, state, deltas)
    if state.encrypted:
        item = {"encrypted_content": "".join(state.encrypted)}
        deltas.append(d.Opaque((index, "thinking"), item))
        state.encrypted = []
    if state.citations:
        deltas.append(d.Opaque((index, "text"), {"citations": state.citations}))
        state.citations = []


def _unwrapped(payload: object) -> object:
    """Return the chunk in an SDK object, which is a chunk, or a response and its latest chunk."""
    if isinstance(payload, bytes | str):
        return fields_of(payload) or payload  # protobuf writes names in camelCase by default
    if isinstance(payload, dict):
        return payload
    if isinstance(payload, tuple) and payload:
        payload = payload[-1]
    payload = getattr(payload, "proto", payload)
    return _fields(payload) if hasattr(payload, "ListFields") else payload


def _fields(message: Any) -> dict[str, Any]:
    """Convert a protobuf message to a dict by its descriptor."""
    return {field.name: _value(field, value) for field, value in message.ListFields()}


def _value(field: Any, value: Any) -> Any:
    if isinstance(value, str | bytes):
        return value
    if hasattr(value, "ListFields"):
        return _fields(value)
    if isinstance(value, Iterable):
        return [_value(field, part) for part in value]
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value


def _tokens(usage: _Usage) -> d.Tokens:
    return d.Tokens(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens + usage.reasoning_tokens,  # separate counts
        cache_read_tokens=usage.cached_prompt_text_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )
