"""Gemini's generateContent, from the Gemini API and from Vertex, and its live sessions.

A payload is a piece of the answer: candidates with new parts. An answer that is not streamed has
the same form; a stream that is not sent as server-sent events is an array of payloads.

A part is text, a thought, a call, code that Gemini runs, or something that only it understands.
Nothing tells where a block of text begins or ends: it is one for as long as parts of its kind
follow each other. A signature belongs to the part that it came with, so such a part is a block of
its own, and goes back as it was.

Most calls have no id. Arguments come whole, or, from Vertex if it is asked to, as leaves with
their JSON paths: then every piece says whether more follows, of the string and of the call.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from argstream.jsonstream import JsonPath
from argstream.providers._deltas import (
    ArgumentText,
    ArgumentValue,
    CallClosed,
    CallOpened,
    CallResult,
    Delta,
    Opaque,
    ProviderDecoder,
    ProviderFailed,
    TextPiece,
    ThinkingClosed,
    ThinkingOpened,
    ThinkingPiece,
    Tokens,
    TurnClosed,
    TurnEnded,
    TurnOpened,
    UsageReported,
)
from argstream.providers._payloads import (
    PayloadReader,
    UnreadableError,
    camel_cased,
    fields_of,
    is_done,
    names_in,
    plain,
    refuse_duplicate_keys,
    snake,
    snake_cased,
    text_of,
    total,
    without,
)
from argstream.providers._stop_reasons import ending_of

_TAKEN_BACK: Final = "cancelled: the provider has taken this call back"
# Reasons for the end of a turn that do not mean that something was cut.
_ORDERLY: Final = {"TURN_COMPLETE_REASON_UNSPECIFIED", "NEED_MORE_INPUT"}


_RETRYABLE: Final = {
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
    "INTERNAL",
    "DEADLINE_EXCEEDED",
    "ABORTED",
}
_OF_ANY_NAMES: Final = {"args", "response", "part_metadata", "error"}
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


_OF_A_LEAF: Final = {
    *("jsonPath", "stringValue", "numberValue", "boolValue", "nullValue", "willContinue"),
    *("json_path", "string_value", "number_value", "bool_value", "null_value", "will_continue"),
}


# Fields that carry a piece of what is said, wherever parts and calls are.
_VITAL_OF_PARTS: Final = {
    "parts",
    "text",
    "function_call",
    "name",
    "args",
    "partial_args",
    "json_path",
    "string_value",
    "bool_value",
    "will_continue",
}


class _PartialArg(Struct, gc=False, rename="camel"):
    """A leaf of a call's arguments, or a piece of one."""

    json_path: str | None = None
    string_value: str | None = None
    number_value: Any = None
    bool_value: bool | None = None
    will_continue: bool | None = None


class _FunctionCall(Struct, gc=False, rename="camel"):
    """A call, whole or in pieces. A piece has no name; an empty one ends the call."""

    name: str | None = None
    id: str | None = None
    args: dict[str, Any] | None = None
    partial_args: list[_PartialArg] | None = None
    will_continue: bool | None = None


class _Part(Struct, gc=False, rename="camel"):
    """What is nearly always in a part. The rest is looked up where a part has none of it."""

    text: str | None = None
    thought: bool | None = None
    function_call: _FunctionCall | None = None
    thought_signature: str | None = None


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

    def tokens(self) -> Tokens:
        written = self.candidates_token_count, self.response_token_count
        # Thinking is part of the output, as with other providers.
        return Tokens(
            input_tokens=total(self.prompt_token_count, self.tool_use_prompt_token_count),
            output_tokens=total(*written, self.thoughts_token_count),
            cache_read_tokens=self.cached_content_token_count,
            reasoning_tokens=self.thoughts_token_count,
        )


# The usage in all chunks of Vertex but the last: an object without counts.
_NO_USAGE: Final = _UsageMetadata()


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


class _Transcription(Struct, gc=False, rename="camel"):
    text: str | None = None


class _ServerContent(Struct, gc=False, rename="camel"):
    model_turn: _Content | None = None
    output_transcription: _Transcription | None = None
    interrupted: bool | None = None
    turn_complete: bool | None = None
    turn_complete_reason: str | None = None


class _ToolCall(Struct, gc=False, rename="camel"):
    function_calls: list[_FunctionCall] | None = None


class _Cancellation(Struct, gc=False, rename="camel"):
    ids: list[str] | None = None


class _Message(_Payload, gc=False, rename="camel"):
    server_content: _ServerContent | None = None
    tool_call: _ToolCall | None = None
    tool_call_cancellation: _Cancellation | None = None


_StructType = TypeVar("_StructType", bound=_Payload)


class _GeminiReader(Generic[_StructType]):
    """Reads payloads with names of either kind, in whatever form they come."""

    def __init__(self, struct: type[_StructType], vital: set[str]) -> None:
        self._decode = msgspec.json.Decoder(struct, strict=False).decode
        self._pick = PayloadReader(struct, vital)
        self._names = names_in(struct)

    def __call__(self, payload: object) -> _StructType:
        if isinstance(payload, _TEXT):
            try:
                found = self._decode(payload)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                pass
            else:
                # Google tells its usage with every piece: then the names are its own.
                if found.usage_metadata is not None or not _is_snake_cased(payload):
                    return found
            payload = fields_of(payload)
            if not payload:
                raise UnreadableError("no object, or an empty one")
        return self._pick(snake_cased(payload, self._names, _OF_ANY_NAMES))


_Key: TypeAlias = tuple[int, int]
_Item: TypeAlias = dict[str, Any]


_read = _GeminiReader(
    _Response, vital={*_VITAL_OF_PARTS, "candidates", "index", "content", "finish_reason"}
)


_read_live = _GeminiReader(
    _Message,
    vital={
        *_VITAL_OF_PARTS,
        "server_content",
        "model_turn",
        "tool_call",
        "tool_call_cancellation",
        "ids",
        "function_calls",
        "interrupted",
        "turn_complete",
    },
)


class GeminiDecoder(ProviderDecoder):
    """Payloads of generateContent and streamGenerateContent → deltas."""

    protocol = "gemini"

    def __init__(self) -> None:
        self._in_turn = False
        self._turn_id = ""
        self._answers: dict[int, _PartsReader] = {}
        self._finished: set[int] = set()
        self._sent = _Sent()
        self._unsaid: list[Delta] = []  # what came before the part that could not be read

    def feed(self, payload: object, event: str = "") -> list[Delta]:
        """Return the deltas of one payload: bytes, a dict, or a response of the SDK."""
        if is_done(payload):  # of a gateway that speaks to all in the manner of OpenAI
            return []
        response = _read(payload)
        deltas: list[Delta] = []
        feedback = response.prompt_feedback
        block_reason = None if feedback is None else _told(feedback.block_reason)
        if (response.candidates or block_reason) and (
            not self._in_turn or (self._finished and self._is_next_turn(response))
        ):
            deltas += self.close()
            self._in_turn = True
            self._turn_id = response.response_id or ""
            deltas.append(TurnOpened(self._turn_id, response.model_version or ""))
        usage = response.usage_metadata
        if usage is not None and usage != _NO_USAGE and self._in_turn:
            tokens = usage.tokens()
            if any(tokens):
                deltas.append(UsageReported(tokens))
        if response.candidates:
            try:
                self._read_candidates(response.candidates, payload, deltas)
            except UnreadableError:
                self._unsaid = deltas
                raise
        if feedback is not None and block_reason:
            message = feedback.block_reason_message or "the prompt was blocked"
            deltas.append(ProviderFailed(block_reason, message))
        if response.error:
            deltas.append(_failure(response.error))
        return deltas

    def interrupt(self) -> list[Delta]:
        """Return what was read of the payload that was lost."""
        unsaid, self._unsaid = self._unsaid, []
        return unsaid

    def close(self) -> list[Delta]:
        """End the turn here: usage may come after the reason to stop."""
        deltas: list[Delta] = []
        for answer in self._answers.values():
            answer.end(deltas)
        if self._in_turn and self._finished:
            deltas.append(TurnClosed())
        self._in_turn = False
        self._answers = {}
        self._finished = set()
        return deltas

    def _is_next_turn(self, response: _Response) -> bool:
        """Return True if another answer begins: after an end, under another id."""
        is_over = len(self._finished) == len(self._answers)
        return is_over and (response.response_id or "") != self._turn_id

    def _read_candidates(
        self, candidates: list[_Candidate], payload: object, deltas: list[Delta]
    ) -> None:
        self._sent.hold(payload)
        for position, candidate in enumerate(candidates):
            answer = self._answers.get(candidate.index)
            if answer is None:
                answer = _PartsReader(candidate.index, self._sent, self._turn_id)
                self._answers[candidate.index] = answer
            reason = _told(candidate.finish_reason)
            ending = ending_of(reason) if reason else None
            parts = candidate.content.parts if candidate.content is not None else None
            if parts:
                for part in parts:  # for every piece: a generator for any() would be slow
                    if part.function_call is not None and part.function_call.args:
                        refuse_duplicate_keys(payload)
                        break
                where = ("candidates", position, "content", "parts")
                answer.read(parts, where, deltas, is_cut=ending == "cut")
            if reason and ending is not None:
                self._finished.add(candidate.index)
                answer.end(deltas)
                deltas.append(TurnEnded(reason, ending, candidate.index))


class GeminiLiveDecoder(ProviderDecoder):
    """Messages of a live session → deltas."""

    protocol = "gemini-live"

    def __init__(self) -> None:
        self._turn: _PartsReader | None = None
        self._turns = 0
        self._usage = Tokens()  # of the open turn, or of the next one
        self._sent = _Sent()

    def feed(self, payload: object, event: str = "") -> list[Delta]:
        """Return the deltas of one message: bytes, a dict, or a message of the SDK."""
        message = _read_live(payload)
        self._sent.hold(payload)
        deltas: list[Delta] = []
        usage = message.usage_metadata
        is_of_a_turn = self._turn is not None or message.server_content or message.tool_call
        has_usage = usage is not None and is_of_a_turn and any(tokens := usage.tokens())
        if has_usage:
            self._usage = tokens  # after the end of a turn it is too late
        if message.tool_call is not None and message.tool_call.function_calls:
            self._read_calls(message.tool_call.function_calls, payload, deltas)
        if message.server_content is not None:
            self._read_content(message.server_content, deltas)
        if message.tool_call_cancellation is not None:
            ids = message.tool_call_cancellation.ids or ()
            deltas += [CallResult(id_, _TAKEN_BACK, failed=True) for id_ in ids]
        if message.error:
            deltas.append(_failure(message.error))
        if has_usage and self._turn is not None:
            deltas.append(UsageReported(self._usage))
        return deltas

    def close(self) -> list[Delta]:
        """End the parts of the open turn. Without its end, the turn stays open."""
        deltas: list[Delta] = []
        if self._turn is not None:
            self._turn.end(deltas)
        return deltas

    def _open_turn(self, deltas: list[Delta]) -> "_PartsReader":
        if self._turn is None:
            self._turn = _PartsReader(0, self._sent, f"live_{self._turns}", keeps_media=False)
            self._turns += 1
            deltas.append(TurnOpened())
        return self._turn

    def _read_calls(self, calls: list[_FunctionCall], payload: object, deltas: list[Delta]) -> None:
        if any(call.args for call in calls):
            refuse_duplicate_keys(payload)
        turn = self._open_turn(deltas)
        for number, call in enumerate(calls):
            if call.name and call.args is None and not call.will_continue:
                call.args = None if call.partial_args else {}
            turn.read_call(call, ("toolCall", "functionCalls", number), deltas)

    def _read_content(self, content: _ServerContent, deltas: list[Delta]) -> None:
        parts = content.model_turn.parts if content.model_turn is not None else None
        if parts:
            where = ("serverContent", "modelTurn", "parts")
            self._open_turn(deltas).read(parts, where, deltas)
        if content.output_transcription is not None and content.output_transcription.text:
            self._open_turn(deltas).say(content.output_transcription.text, "speech", deltas)
        if content.interrupted and self._turn is not None:
            self._turn.end(deltas)
            deltas.append(TurnEnded("interrupted", "cut"))
        if content.turn_complete:
            self._open_turn(deltas).end(deltas)
            reason = content.turn_complete_reason
            if reason and reason not in _ORDERLY:
                deltas.append(TurnEnded(reason, "cut"))
            else:
                deltas.append(TurnEnded("turnComplete", "finished"))
            deltas += [UsageReported(self._usage), TurnClosed()]
            self._turn = None
            self._usage = Tokens()


def _told(reason: str | None) -> str | None:
    """Return a reason. Where defaults are sent, every piece has one that is unspecified."""
    return None if reason is None or reason.endswith("_UNSPECIFIED") else reason


class _PartsReader:
    """The parts of one answer → deltas."""

    def __init__(
        self, scope: int, sent: "_Sent", turn_id: str = "", *, keeps_media: bool = True
    ) -> None:
        # Keys are tuples that begin with ``scope``, one of several answers.
        self._scope = scope
        self._sent = sent  # the payload that is being read
        self._turn_id = turn_id
        self._keeps_media = keeps_media
        self._count = 0
        self._writes = ""  # what the block is: text, thinking, or neither
        self._call: _OpenCall | None = None
        self._running = ""  # the id of what Gemini ran last

    def read(
        self,
        parts: Sequence[_Part],
        where: JsonPath,
        deltas: list[Delta],
        *,
        is_cut: bool = False,
    ) -> None:
        """Read the next parts, which are at the path ``where`` of the payload.

        If the answer was cut after them, the call in the last one may have been cut, too.
        """
        for index, part in enumerate(parts):
            text, call = part.text, part.function_call
            item = None
            if part.thought_signature is not None or (text is None and call is None):
                item = _as_sent(self._sent.at(*where, index))
            elif call is not None and call.will_continue and not call.name and self._call:
                here = (*where, index, "functionCall")
                self._go_on(self._call, call, here, deltas)  # a piece like any other
                continue
            if call is not None:
                may_be_cut = is_cut and index == len(parts) - 1
                here = (*where, index, "functionCall")
                self.read_call(call, here, deltas, item=item, may_be_cut=may_be_cut)
            elif text is not None:
                self._read_text(text, item, deltas, is_thought=bool(part.thought))
            elif item:
                self._read_other(item, deltas)

    def say(self, text: str, kind: str, deltas: list[Delta]) -> None:
        if kind != self._writes:
            self._next_key(deltas)
            self._writes = kind
        piece = ThinkingPiece if kind == "thinking" else TextPiece
        deltas.append(piece((self._scope, self._count), text))

    def end(self, deltas: list[Delta]) -> None:
        self._pause(deltas)
        self._leave_call(deltas)

    def _pause(self, deltas: list[Delta]) -> None:
        if self._writes == "thinking":
            deltas.append(ThinkingClosed((self._scope, self._count)))
        self._writes = ""

    def _next_key(self, deltas: list[Delta]) -> _Key:
        self._pause(deltas)
        self._count += 1
        return self._scope, self._count

    def _read_text(
        self, text: str, item: _Item | None, deltas: list[Delta], *, is_thought: bool
    ) -> None:
        kind = "thinking" if is_thought else "text"
        if item is None:
            if text:
                self.say(text, kind, deltas)
            return
        block = self._next_key(deltas)
        if is_thought:
            deltas.append(ThinkingOpened(block))
        if text:
            deltas.append(ThinkingPiece(block, text) if is_thought else TextPiece(block, text))
        deltas.append(Opaque(block, item))
        if is_thought:
            deltas.append(ThinkingClosed(block))

    def read_call(
        self,
        call: _FunctionCall,
        where: JsonPath,
        deltas: list[Delta],
        *,
        item: _Item | None = None,
        may_be_cut: bool = False,
    ) -> None:
        """Read a call, or a piece of one. With a name it is a new one; an empty one ends it."""
        if call.name:
            self._leave_call(deltas)
            key = self._next_key(deltas)
            deltas.append(CallOpened(key, call.id or "", call.name))
            if not call.will_continue and call.partial_args is None:
                if call.args is not None:
                    deltas.append(ArgumentValue(key, (), call.args))
                _keep(key, item, deltas)
                if not may_be_cut:
                    deltas.append(CallClosed(key))
                return
            self._call = _OpenCall(key)
        if self._call is None:
            if not (call.partial_args or call.args):
                return  # the end of nothing
            self._call = _OpenCall(self._next_key(deltas))  # without a name, and that will be told
        self._go_on(self._call, call, where, deltas)
        _keep(self._call.key, item, deltas)
        if not call.will_continue and not may_be_cut:
            deltas.append(CallClosed(self._call.key, cut=bool(self._call.open_strings)))
            self._call = None

    def _go_on(
        self,
        opened: "_OpenCall",
        call: _FunctionCall,
        where: JsonPath,
        deltas: list[Delta],
    ) -> None:
        if call.args:
            deltas += [
                ArgumentValue(opened.key, (name,), given) for name, given in call.args.items()
            ]
        for number, leaf in enumerate(call.partial_args or ()):
            written = leaf.json_path
            if written is None:
                raise UnreadableError("a piece of arguments without its path")
            path = opened.paths.get(written)
            if path is None:
                path = opened.paths[written] = _parse_path(written)
            value: Any = leaf.string_value
            if value is None:
                value = _value(leaf)
                if value is None:
                    _check_leaf(self._sent.at(*where, "partialArgs", number))
                    if leaf.will_continue or written in opened.open_strings:
                        value = ""  # somebody strips what is empty
            if leaf.will_continue and isinstance(value, str):
                opened.open_strings.add(written)
                deltas.append(ArgumentValue(opened.key, path, value, more=True))
            else:
                opened.open_strings.discard(written)
                deltas.append(ArgumentValue(opened.key, path, value))

    def _leave_call(self, deltas: list[Delta]) -> None:
        """Close the open call as cut: its last piece said that more comes."""
        if self._call is not None:
            deltas.append(CallClosed(self._call.key, cut=True))
        self._call = None

    def _read_other(self, item: _Item, deltas: list[Delta]) -> None:
        for name, given in item.items():
            if isinstance(given, dict):
                rest = without(item, name)
                match name:
                    case "executableCode" | "executable_code":
                        self._read_code(name, given, rest, deltas)
                        return
                    case "toolCall" | "tool_call":
                        self._read_tool_call(name, given, rest, deltas)
                        return
                    case "codeExecutionResult" | "code_execution_result":
                        failed = given.get("outcome") not in (None, "OUTCOME_OK")
                        self._read_result(item, given, given, deltas, failed=failed)
                        return
                    case "toolResponse" | "tool_response":
                        self._read_result(item, given, given.get("response"), deltas)
                        return
        if self._keeps_media:
            deltas.append(Opaque(self._next_key(deltas), item))

    def _read_code(self, name: str, code: _Item, rest: _Item, deltas: list[Delta]) -> None:
        key = self._run(code, deltas)
        deltas += [
            CallOpened(key, self._running, "code_execution", "code"),
            ArgumentText(key, text_of(code.get("code"))),
            Opaque(key, {name: without(code, "code"), **rest}),
            CallClosed(key),
        ]

    def _read_tool_call(self, name: str, call: _Item, rest: _Item, deltas: list[Delta]) -> None:
        key = self._run(call, deltas)
        deltas += [
            CallOpened(key, self._running, text_of(_field_of(call, "toolType")), "server"),
            ArgumentValue(key, (), call.get("args") or {}),
            Opaque(key, {name: without(call, "args"), **rest}),
            CallClosed(key),
        ]

    def _run(self, call: _Item, deltas: list[Delta]) -> _Key:
        """Begin what Gemini runs. Without an id it gets one, so that its result finds it."""
        key = self._next_key(deltas)
        made = f"{self._turn_id or 'turn'}_{key[0]}_{key[1]}"
        self._running = text_of(call.get("id")) or made
        return key

    def _read_result(
        self,
        item: _Item,
        given: _Item,
        result: object,
        deltas: list[Delta],
        *,
        failed: bool = False,
    ) -> None:
        block = self._next_key(deltas)
        call_id = text_of(given.get("id")) or self._running
        deltas += [CallResult(call_id, result, failed, block), Opaque(block, item)]


def _keep(key: _Key, item: _Item | None, deltas: list[Delta]) -> None:
    """Keep what else is in the part of a call; its arguments are kept by assembly."""
    if item is not None:
        call = _field_of(item, "functionCall")
        kept = {name: call[name] for name in ("id", "name") if name in call}
        rest = without(item, "functionCall", "function_call")
        deltas.append(Opaque(key, {"functionCall": kept, **rest}))


def _value(leaf: _PartialArg) -> int | float | None:
    number: Any = leaf.number_value
    if number is None:
        return leaf.bool_value
    if isinstance(number, str):  # the JSON of protocol buffers has no other way to say NaN
        try:
            number = float(number)
        except ValueError as error:
            raise UnreadableError(f"a piece of arguments is no number: {error}") from error
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise UnreadableError(f"a number that is a {type(number).__name__}")
    # Google has only doubles, of which the wire writes 5 and the SDK makes 5.0.
    is_whole = isinstance(number, float) and number.is_integer() and abs(number) < 2**53
    return int(number) if is_whole else number


def _check_leaf(leaf: object) -> None:
    """Refuse a leaf with a value of an unknown kind: it must not be read as null."""
    fields = fields_of(leaf)
    if unknown := fields.keys() - _OF_A_LEAF:
        raise UnreadableError(f"an argument of an unknown kind: {min(unknown)}")


class _OpenCall:
    """A call whose arguments come leaf by leaf."""

    __slots__ = ("key", "open_strings", "paths")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.paths: dict[str, JsonPath] = {}  # by how they are written
        self.open_strings: set[str] = set()


def _parse_path(path: str) -> JsonPath:
    r"""Read the JSON path of a leaf: names and indexes of RFC 9535.

    >>> _parse_path("$.a[0]['x y']")
    ('a', 0, 'x y')
    """
    if not path.startswith("$") or path == "$":
        raise UnreadableError(f"not the path of an argument: {path[:80]}")
    return tuple(_steps(path))


def _steps(path: str) -> Iterator[str | int]:
    place = 1
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            raise UnreadableError(f"not the path of an argument: {path[:80]}")
        place = step.end()
        name, index, *quoted = step.groups()
        if index is not None:
            yield int(index)
        elif name is not None:
            yield name
        else:
            yield _ESCAPE.sub(_unescaped, next(text for text in quoted if text is not None))


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    if code not in _ESCAPES:
        raise UnreadableError(f"no escape of a JSON path: {escape[0]}")
    return _ESCAPES[code]


class _Sent:
    """A payload as it came, for what the structs do not name; decoded when it is asked for."""

    __slots__ = ("_is_decoded", "_payload")

    def __init__(self) -> None:
        self.hold(None)

    def hold(self, payload: object) -> None:
        self._payload = payload
        self._is_decoded = False

    def at(self, *path: str | int) -> Any:
        if not self._is_decoded:
            self._is_decoded = True
            if isinstance(self._payload, _TEXT):
                self._payload = fields_of(self._payload)
        return _field_of(self._payload, *path)


def _field_of(value: object, *path: str | int) -> Any:
    """Return what is at a path of indexes and of names as they are on the wire, or None."""
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
    """Return a part as it goes back: as it came, under the names on the wire."""
    if isinstance(part, Mapping):
        kept: dict[str, Any] = camel_cased(part, _OF_ANY_NAMES)
        return kept
    found = plain(part)
    item: dict[str, Any] = found if isinstance(found, dict) else {}
    # The SDK has decoded bytes, and encodes them as for an URL.
    for owner, name in ((item, "thoughtSignature"), (item.get("inlineData"), "data")):
        if isinstance(owner, dict) and isinstance(encoded := owner.get(name), str):
            owner[name] = encoded.replace("-", "+").replace("_", "/")
    return item


def _failure(error: object) -> ProviderFailed:
    if not isinstance(error, Mapping):
        return ProviderFailed("error", text_of(error) or "error")
    status, number = text_of(error.get("status")), error.get("code")
    code = status or text_of(number) or "error"
    retryable = code in _RETRYABLE or (type(number) is int and (number == 429 or number >= 500))
    return ProviderFailed(code, text_of(error.get("message")) or code, retryable)


def _is_snake_cased(payload: bytes | bytearray | str) -> bool:
    if isinstance(payload, str):
        payload = payload.encode(errors="replace")
    return _SNAKE_CASED.search(payload) is not None
