"""Gemini's generateContent, from the Gemini API and from Vertex, and its live sessions.

A payload has candidates with new parts. A response that is not streamed has the same form; a stream
without server-sent events is an array of payloads.

A part is text, a thought, a call, code that Gemini runs, or opaque data. The start and end of a
text block are not marked: consecutive text parts are one block. A signature belongs to its part, so
a part with one is a separate block and is sent back unchanged.

Most calls have no ID. Arguments arrive whole, or, if requested from Vertex, as leaves with JSON
paths. Each piece then has flags for whether the string and the call continue.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct

from argstream.jsonstream import JsonPath
from argstream.providers import _deltas as d
from argstream.providers._payloads import (
    PayloadReader,
    UnreadableError,
    camel_cased,
    failure,
    fields_of,
    plain,
    refuse_duplicate_keys,
    snake,
    text_of,
    total,
    without,
)
from argstream.providers._stop_reasons import ending_of

_CANCELLED: Final = "cancelled by the provider"
# Reasons for the end of a turn in which nothing was cut.
_REGULAR_ENDS: Final = {"TURN_COMPLETE_REASON_UNSPECIFIED", "NEED_MORE_INPUT"}
_FREE_FORM: Final = {"args", "response", "part_metadata", "error"}
_SNAKE_CASED: Final = re.compile(rb'"[a-z]+(?:_[a-z]+)+"\s*:')
_TEXT = (bytes, bytearray, str)
_STEP: Final = re.compile(
    r"""\.([^.\[]+)                       # .name
    |   \[ (0|[1-9][0-9]{0,14}) \]        # [0]
    |   \[ '( (?:[^'\\]|\\.)* )' \]       # ['name']
    |   \[ "( (?:[^"\\]|\\.)* )" \]       # ["name"]
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES: Final = dict(zip("bfnrt/\\'\"", "\b\f\n\r\t/\\'\"", strict=True))
# Fields of parts and calls that carry content.
_VITAL_OF_PARTS: Final = (
    "parts text function_call name args partial_args json_path string_value bool_value "
    "will_continue"
)


class _PartialArg(Struct, gc=False, rename="camel"):
    """A leaf of a call's arguments, or a piece of one."""

    json_path: str | None = None
    string_value: str | None = None
    number_value: Any = None
    bool_value: bool | None = None
    will_continue: bool | None = None


_LEAF_FIELDS: Final = (*_PartialArg.__struct_fields__, "null_value")


class _FunctionCall(Struct, gc=False, rename="camel"):
    """A whole call, or a piece of one. A piece has no name; an empty piece ends the call."""

    name: str | None = None
    id: str | None = None
    args: dict[str, Any] | None = None
    partial_args: list[_PartialArg] | None = None
    will_continue: bool | None = None


class _Part(Struct, gc=False, rename="camel"):
    """The usual fields of a part. Parts without them are looked up in the payload."""

    text: str | None = None
    thought: bool | None = None
    function_call: _FunctionCall | None = None
    thought_signature: Any = None  # text, or bytes in the SDK


class _Content(Struct, gc=False, rename="camel"):
    parts: list[_Part] | None = None


class _UsageMetadata(Struct, gc=False, rename="camel"):
    """The usage so far. Live sessions count ``response`` tokens instead of ``candidates``."""

    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    response_token_count: int | None = None
    thoughts_token_count: int | None = None

    def tokens(self) -> d.Tokens:
        written = self.candidates_token_count, self.response_token_count
        # Thinking is part of the output, as with other providers.
        return d.Tokens(
            input_tokens=total(self.prompt_token_count, self.tool_use_prompt_token_count),
            output_tokens=total(*written, self.thoughts_token_count),
            cache_read_tokens=self.cached_content_token_count,
            reasoning_tokens=self.thoughts_token_count,
        )


_NO_USAGE: Final = _UsageMetadata()  # in all chunks of Vertex except the last


class _Payload(Struct, gc=False, rename="camel"):
    usage_metadata: _UsageMetadata | None = None
    error: Any = None


class _Candidate(Struct, gc=False, rename="camel"):
    index: int = 0
    content: _Content | None = None
    finish_reason: str | None = None


class _PromptFeedback(Struct, gc=False, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Response(_Payload, gc=False, rename="camel"):
    candidates: list[_Candidate] | None = None
    response_id: str | None = None
    model_version: str | None = None
    prompt_feedback: _PromptFeedback | None = None


class _ServerContent(Struct, gc=False, rename="camel"):
    model_turn: _Content | None = None
    output_transcription: dict[str, Any] | None = None
    interrupted: bool | None = None
    turn_complete: bool | None = None
    turn_complete_reason: str | None = None


class _ToolCall(Struct, gc=False, rename="camel"):
    function_calls: list[_FunctionCall] | None = None


class _Message(_Payload, gc=False, rename="camel"):
    server_content: _ServerContent | None = None
    tool_call: _ToolCall | None = None
    tool_call_cancellation: dict[str, Any] | None = None


_StructType = TypeVar("_StructType", bound=_Payload)


class _GeminiReader(PayloadReader[_StructType]):
    """Reads payloads with names in camelCase or snake_case, as text or objects."""

    def __call__(self, payload: object) -> _StructType:
        found = super().__call__(payload)
        # Google sends usage with every chunk. If the struct has it, names are in camelCase.
        if found.usage_metadata is None and isinstance(payload, _TEXT):
            text = payload.encode(errors="replace") if isinstance(payload, str) else payload
            if _SNAKE_CASED.search(text):
                return super().__call__(fields_of(payload))
        return found


_Item: TypeAlias = dict[str, Any]

_read = _GeminiReader(_Response, f"{_VITAL_OF_PARTS} candidates index content finish_reason")
_read_live = _GeminiReader(
    _Message,
    f"{_VITAL_OF_PARTS} server_content model_turn tool_call tool_call_cancellation ids "
    "function_calls interrupted turn_complete",
)


class GeminiDecoder(d.ProviderDecoder):
    """Payloads of generateContent and streamGenerateContent → deltas."""

    protocol = "gemini"

    def __init__(self) -> None:
        self._in_turn = False
        self._turn_id = ""
        self._candidates: dict[int, _PartsReader] = {}
        self._finished: set[int] = set()
        self._raw = _RawPayload()
        self._unsent: list[d.Delta] = []  # deltas of the parts before an unreadable one

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of one payload: bytes, a dict, or a response of the SDK."""
        response = _read(payload)
        deltas: list[d.Delta] = []
        feedback = response.prompt_feedback
        block_reason = None if feedback is None else _specified(feedback.block_reason)
        if (response.candidates or block_reason) and (
            not self._in_turn or (self._finished and self._is_next_turn(response))
        ):
            deltas += self.close()
            self._in_turn = True
            self._turn_id = response.response_id or ""
            deltas.append(d.TurnOpened(self._turn_id, response.model_version or ""))
        usage = response.usage_metadata
        if usage is not None and usage != _NO_USAGE and self._in_turn:
            tokens = usage.tokens()
            if any(tokens):
                deltas.append(d.UsageReported(tokens))
        if response.candidates:
            try:
                self._read_candidates(response.candidates, payload, deltas)
            except UnreadableError:
                self._unsent = deltas
                raise
        if feedback is not None and block_reason:
            message = feedback.block_reason_message or "the prompt was blocked"
            deltas.append(d.ProviderFailed(block_reason, message))
        if response.error:
            deltas.append(failure(response.error, "status", "code"))
        return deltas

    def interrupt(self) -> list[d.Delta]:
        """Return the deltas of the parts before an unreadable one."""
        unsent, self._unsent = self._unsent, []
        return unsent

    def close(self) -> list[d.Delta]:
        """End the turn. It stays open after the stop reason, because usage may follow."""
        deltas: list[d.Delta] = []
        for reader in self._candidates.values():
            reader.end_all(deltas)
        if self._in_turn and self._finished:
            deltas.append(d.TurnClosed())
        self._in_turn = False
        self._candidates = {}
        self._finished = set()
        return deltas

    def _is_next_turn(self, response: _Response) -> bool:
        """Return True if a response with another ID begins after the end of this one."""
        is_over = len(self._finished) == len(self._candidates)
        return is_over and (response.response_id or "") != self._turn_id

    def _read_candidates(
        self, candidates: list[_Candidate], payload: object, deltas: list[d.Delta]
    ) -> None:
        self._raw.set(payload)
        for position, candidate in enumerate(candidates):
            reader = self._candidates.get(candidate.index)
            if reader is None:
                reader = _PartsReader(candidate.index, self._raw, self._turn_id)
                self._candidates[candidate.index] = reader
            reason = _specified(candidate.finish_reason)
            ending = ending_of(reason) if reason else None
            parts = candidate.content.parts if candidate.content is not None else None
            if parts:
                for part in parts:  # on the hot path: any() with a generator would be slow
                    if part.function_call is not None and part.function_call.args:
                        refuse_duplicate_keys(payload)
                        break
                where = ("candidates", position, "content", "parts")
                reader.read(parts, where, deltas, is_cut=ending == "cut")
            if reason and ending is not None:
                self._finished.add(candidate.index)
                reader.end_all(deltas)
                deltas.append(d.TurnEnded(reason, ending, candidate.index))


class GeminiLiveDecoder(d.ProviderDecoder):
    """Messages of a live session → deltas."""

    protocol = "gemini-live"

    def __init__(self) -> None:
        self._turn: _PartsReader | None = None
        self._turns = 0
        self._usage = d.Tokens()  # of the open turn, or of the next one
        self._raw = _RawPayload()

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of one message: bytes, a dict, or a message of the SDK."""
        message = _read_live(payload)
        self._raw.set(payload)
        deltas: list[d.Delta] = []
        usage = message.usage_metadata
        belongs_to_turn = self._turn is not None or message.server_content or message.tool_call
        has_usage = usage is not None and belongs_to_turn and any(tokens := usage.tokens())
        if has_usage:
            self._usage = tokens  # kept, because the turn may end in this message
        if message.tool_call is not None and message.tool_call.function_calls:
            self._read_calls(message.tool_call.function_calls, payload, deltas)
        if message.server_content is not None:
            self._read_content(message.server_content, deltas)
        if message.tool_call_cancellation is not None:
            ids = message.tool_call_cancellation.get("ids") or ()
            deltas += [d.CallResult(text_of(id_), _CANCELLED, failed=True) for id_ in ids]
        if message.error:
            deltas.append(failure(message.error, "status", "code"))
        if has_usage and self._turn is not None:
            deltas.append(d.UsageReported(self._usage))
        return deltas

    def close(self) -> list[d.Delta]:
        """End the parts of the open turn. The turn itself stays open."""
        deltas: list[d.Delta] = []
        if self._turn is not None:
            self._turn.end_all(deltas)
        return deltas

    def _open_turn(self, deltas: list[d.Delta]) -> "_PartsReader":
        if self._turn is None:
            self._turn = _PartsReader(0, self._raw, f"live_{self._turns}", keeps_media=False)
            self._turns += 1
            deltas.append(d.TurnOpened())
        return self._turn

    def _read_calls(
        self, calls: list[_FunctionCall], payload: object, deltas: list[d.Delta]
    ) -> None:
        if any(call.args for call in calls):
            refuse_duplicate_keys(payload)
        turn = self._open_turn(deltas)
        for number, call in enumerate(calls):
            if call.name and call.args is None and not call.will_continue:
                call.args = None if call.partial_args else {}
            turn.read_call(call, ("toolCall", "functionCalls", number), deltas)

    def _read_content(self, content: _ServerContent, deltas: list[d.Delta]) -> None:
        parts = content.model_turn.parts if content.model_turn is not None else None
        if parts:
            where = ("serverContent", "modelTurn", "parts")
            self._open_turn(deltas).read(parts, where, deltas)
        if speech := text_of((content.output_transcription or {}).get("text")):
            self._open_turn(deltas).append_text(speech, "speech", deltas)
        if content.interrupted and self._turn is not None:
            self._turn.end_all(deltas)
            deltas.append(d.TurnEnded("interrupted", "cut"))
        if content.turn_complete:
            self._open_turn(deltas).end_all(deltas)
            reason = content.turn_complete_reason
            if reason and reason not in _REGULAR_ENDS:
                deltas.append(d.TurnEnded(reason, "cut"))
            else:
                deltas.append(d.TurnEnded("turnComplete", "finished"))
            deltas += [d.UsageReported(self._usage), d.TurnClosed()]
            self._turn = None
            self._usage = d.Tokens()


def _specified(reason: str | None) -> str | None:
    """Return a reason, or None if unspecified. Some servers send that in every chunk."""
    return None if reason is None or reason.endswith("_UNSPECIFIED") else reason


class _PartsReader(d.Blocks):
    """The parts of one candidate → deltas."""

    def __init__(
        self, scope: int, raw: "_RawPayload", turn_id: str = "", *, keeps_media: bool = True
    ) -> None:
        super().__init__(scope)  # the index of the candidate
        self._raw = raw  # the payload that is being read
        self._turn_id = turn_id
        self._keeps_media = keeps_media
        self._call: _OpenCall | None = None
        self._running = ""  # the ID of the last call that Gemini ran

    def read(
        self,
        parts: Sequence[_Part],
        where: JsonPath,
        deltas: list[d.Delta],
        *,
        is_cut: bool = False,
    ) -> None:
        """Read the next parts, which are at the path ``where`` of the payload.

        ``is_cut``: the response was cut after these parts, so the last call may be incomplete.
        """
        for index, part in enumerate(parts):
            text, call = part.text, part.function_call
            item = None
            if part.thought_signature is not None or (text is None and call is None):
                item = _as_sent(self._raw.at(*where, index))
            elif call is not None and call.will_continue and not call.name and self._call:
                here = (*where, index, "functionCall")
                self._append_arguments(self._call, call, here, deltas)
                continue
            if call is not None:
                may_be_cut = is_cut and index == len(parts) - 1
                here = (*where, index, "functionCall")
                self.read_call(call, here, deltas, item=item, may_be_cut=may_be_cut)
            elif text is not None:
                self._read_text(text, item, deltas, is_thought=bool(part.thought))
            elif item:
                self._read_special(item, deltas)

    def end_all(self, deltas: list[d.Delta]) -> None:
        self.end(deltas)
        self._close_as_cut(deltas)

    def _read_text(
        self, text: str, item: _Item | None, deltas: list[d.Delta], *, is_thought: bool
    ) -> None:
        kind = "thinking" if is_thought else "text"
        if item is not None:  # a block of its own
            block = self.begin(kind, deltas)
            if is_thought:
                deltas.append(d.ThinkingOpened(block))
        if text:
            self.append_text(text, kind, deltas)
        if item is not None:
            deltas.append(d.Opaque(self.key, item))
            self.end(deltas)

    def read_call(
        self,
        call: _FunctionCall,
        where: JsonPath,
        deltas: list[d.Delta],
        *,
        item: _Item | None = None,
        may_be_cut: bool = False,
    ) -> None:
        """Read a call or a piece of one. A name begins a new call. An empty piece ends the call."""
        if call.name:
            self._close_as_cut(deltas)
            key = self.begin("", deltas)
            deltas.append(d.CallOpened(key, call.id or "", call.name))
            if not call.will_continue and call.partial_args is None:
                if call.args is not None:
                    deltas.append(d.ArgumentValue(key, (), call.args))
                _keep(key, item, deltas)
                if not may_be_cut:
                    deltas.append(d.CallClosed(key))
                return
            self._call = _OpenCall(key)
        if self._call is None:
            if not (call.partial_args or call.args):
                return  # no call is open
            self._call = _OpenCall(self.begin("", deltas))  # without a name: assembly reports it
        self._append_arguments(self._call, call, where, deltas)
        _keep(self._call.key, item, deltas)
        if not call.will_continue and not may_be_cut:
            deltas.append(d.CallClosed(self._call.key, cut=bool(self._call.open_strings)))
            self._call = None

    def _append_arguments(
        self, opened: "_OpenCall", call: _FunctionCall, where: JsonPath, deltas: list[d.Delta]
    ) -> None:
        if call.args:
            deltas += [
                d.ArgumentValue(opened.key, (name,), given) for name, given in call.args.items()
            ]
        for number, leaf in enumerate(call.partial_args or ()):
            written = leaf.json_path
            if written is None:
                raise UnreadableError("partial argument has no jsonPath")
            path = opened.paths.get(written)
            if path is None:
                path = opened.paths[written] = _parse_path(written)
            value: Any = leaf.string_value
            if value is None:
                value = _value(leaf)
                if value is None:
                    sent = fields_of(self._raw.at(*where, "partialArgs", number))
                    # A value of another kind would be read as null.
                    if unknown := set(map(snake, sent)).difference(_LEAF_FIELDS):
                        raise UnreadableError(f"unknown kind of partial argument: {min(unknown)}")
                    if leaf.will_continue or written in opened.open_strings:
                        value = ""  # some servers omit empty strings
            if leaf.will_continue and isinstance(value, str):
                opened.open_strings.add(written)
                deltas.append(d.ArgumentValue(opened.key, path, value, more=True))
            else:
                opened.open_strings.discard(written)
                deltas.append(d.ArgumentValue(opened.key, path, value))

    def _close_as_cut(self, deltas: list[d.Delta]) -> None:
        """Close the open call as cut, because its last piece announced more."""
        if self._call is not None:
            deltas.append(d.CallClosed(self._call.key, cut=True))
        self._call = None

    def _read_special(self, item: _Item, deltas: list[d.Delta]) -> None:
        for name, given in item.items():
            if isinstance(given, dict):
                rest = without(item, name)
                match snake(name):
                    case "executable_code" | "tool_call":
                        self._read_server_call(name, given, rest, deltas)
                        return
                    case "code_execution_result" | "tool_response" as kind:
                        is_code = kind == "code_execution_result"
                        result = given if is_code else given.get("response")
                        failed = is_code and given.get("outcome") not in (None, "OUTCOME_OK")
                        block = self.begin("", deltas)
                        call_id = text_of(given.get("id")) or self._running
                        deltas.append(d.CallResult(call_id, result, failed, block))
                        deltas.append(d.Opaque(block, item))
                        return
        if self._keeps_media:
            deltas.append(d.Opaque(self.begin("", deltas), item))

    def _read_server_call(
        self, wire_name: str, call: _Item, rest: _Item, deltas: list[d.Delta]
    ) -> None:
        """Read a call that Gemini runs: code, or a call of one of Google's tools."""
        key = self.begin("", deltas)
        # Without an ID of its own, it gets one for its result.
        self._running = text_of(call.get("id")) or "_".join(
            map(str, (self._turn_id or "turn", *self.key))
        )
        if "code" in snake(wire_name):
            deltas.append(d.CallOpened(key, self._running, "code_execution", "code"))
            deltas.append(d.ArgumentText(key, text_of(call.get("code"))))
        else:
            name = text_of(_field_of(call, "toolType"))
            deltas.append(d.CallOpened(key, self._running, name, "server"))
            deltas.append(d.ArgumentValue(key, (), call.get("args") or {}))
        kept = {wire_name: without(call, "code", "args"), **rest}
        deltas += [d.Opaque(key, kept), d.CallClosed(key)]


def _keep(key: Hashable, item: _Item | None, deltas: list[d.Delta]) -> None:
    """Keep the other fields of the part of a call. Assembly keeps the arguments."""
    if item is not None:
        call = _field_of(item, "functionCall")
        kept = {name: call[name] for name in ("id", "name") if name in call}
        rest = without(item, "functionCall", "function_call")
        deltas.append(d.Opaque(key, {"functionCall": kept, **rest}))


def _value(leaf: _PartialArg) -> int | float | None:
    number: Any = leaf.number_value
    if number is None:
        return leaf.bool_value
    if isinstance(number, str):  # "NaN" in the JSON of protocol buffers
        try:
            number = float(number)
        except ValueError as error:
            raise UnreadableError(f"invalid numberValue: {error}") from error
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise UnreadableError(f"numberValue must be a number, not {type(number).__name__}")
    # Google sends only doubles: 5 on the wire is 5.0 in the SDK.
    is_whole = isinstance(number, float) and number.is_integer() and abs(number) < 2**53
    return int(number) if is_whole else number


class _OpenCall(Struct, eq=False):
    """A call whose arguments arrive leaf by leaf."""

    key: Hashable
    paths: dict[str, JsonPath] = {}  # by their text
    open_strings: set[str] = set()


def _parse_path(path: str) -> JsonPath:
    r"""Parse the JSON path of a leaf: names and indexes of RFC 9535.

    >>> _parse_path("$.a[0]['x y']")
    ('a', 0, 'x y')
    """
    steps: list[str | int] = []
    position = 1
    while path.startswith("$") and (step := _STEP.match(path, position)) is not None:
        position = step.end()
        name, index, *quoted = step.groups()
        if index is not None:
            steps.append(int(index))
        elif name is not None:
            steps.append(name)
        else:
            text = next(text for text in quoted if text is not None)
            steps.append(_ESCAPE.sub(_unescaped, text))
    if not steps or position < len(path):
        raise UnreadableError(f"invalid JSON path of an argument: {path[:80]}")
    return tuple(steps)


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    if code not in _ESCAPES:
        raise UnreadableError(f"invalid escape in a JSON path: {escape[0]}")
    return _ESCAPES[code]


class _RawPayload:
    """The original payload, for fields that the structs do not name. Decoded on first access."""

    __slots__ = ("_is_decoded", "_payload")

    def __init__(self) -> None:
        self.set(None)

    def set(self, payload: object) -> None:
        self._payload = payload
        self._is_decoded = False

    def at(self, *path: str | int) -> Any:
        if not self._is_decoded:
            self._is_decoded = True
            if isinstance(self._payload, _TEXT):
                self._payload = fields_of(self._payload)
        return _field_of(self._payload, *path)


def _field_of(value: object, *path: str | int) -> Any:
    """Return the value at a path of wire names and indexes, or None."""
    for name in path:
        if isinstance(name, int):
            items = value if isinstance(value, list | tuple) else ()
            value = items[name] if name < len(items) else None
        elif isinstance(value, Mapping):
            value = value.get(name, value.get(snake(name)))
        else:
            value = getattr(value, snake(name), None)
    return value


def _as_sent(part: object) -> dict[str, Any]:
    """Return a part as it must be sent back: unchanged, with its wire names."""
    if isinstance(part, Mapping):
        kept: dict[str, Any] = camel_cased(part, _FREE_FORM)
        return kept
    found = plain(part)
    item: dict[str, Any] = found if isinstance(found, dict) else {}
    # The SDK decodes base64, and dumps it in the URL-safe variant.
    for owner, name in ((item, "thoughtSignature"), (item.get("inlineData"), "data")):
        if isinstance(owner, dict) and isinstance(encoded := owner.get(name), str):
            owner[name] = encoded.replace("-", "+").replace("_", "/")
    return item
