"""What Gemini says in parts, in answers over HTTP and in live sessions.

A part is text, a thought, a call, code that Gemini runs, or something that only it understands.
Nothing tells where a block of text begins or ends: it is one for as long as parts of its kind
follow each other. A signature belongs to the part that it came with, so such a part is a block of
its own, and goes back as it was.

Arguments come whole, or, from Vertex if it is asked to, as leaves with their JSON paths: then
every piece says whether more follows, of the string and of the call.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from argstream.adapters._gemini_payloads import (
    FunctionCall,
    Part,
    PartialArg,
    Sent,
    as_sent,
    field_of,
)
from argstream.adapters._json_path import parse_path
from argstream.adapters._payloads import UnreadableError, fields_of, text_of, without
from argstream.deltas import (
    ArgumentText,
    ArgumentValue,
    CallClosed,
    CallOpened,
    CallResult,
    Delta,
    Opaque,
    TextPiece,
    ThinkingClosed,
    ThinkingOpened,
    ThinkingPiece,
)
from argstream.jsonstream import JsonPath

__all__ = ["PartsReader"]

_Key: TypeAlias = tuple[int, int]
_Item: TypeAlias = dict[str, Any]

_OF_A_LEAF: Final = {
    *("jsonPath", "stringValue", "numberValue", "boolValue", "nullValue", "willContinue"),
    *("json_path", "string_value", "number_value", "bool_value", "null_value", "will_continue"),
}


class _OpenCall:
    """A call whose arguments come leaf by leaf."""

    __slots__ = ("key", "open_strings", "paths")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.paths: dict[str, JsonPath] = {}  # by how they are written
        self.open_strings: set[str] = set()


class PartsReader:
    """The parts of one answer → deltas."""

    def __init__(
        self, scope: int, sent: Sent, turn_id: str = "", *, keeps_media: bool = True
    ) -> None:
        """Read for one of several answers; its keys are tuples that begin with ``scope``."""
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
        parts: Sequence[Part],
        where: JsonPath,
        deltas: list[Delta],
        *,
        is_cut: bool = False,
    ) -> None:
        """Take the next parts, which are at this place of what was sent.

        If the answer was cut after them, the call in the last one may have been cut, too.
        """
        for index, part in enumerate(parts):
            text, call = part.text, part.function_call
            item = None
            if part.thought_signature is not None or (text is None and call is None):
                item = as_sent(self._sent.at(*where, index))
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
        """Take a piece of text. What follows it and is of its kind belongs to the same block."""
        if kind != self._writes:
            self._next_key(deltas)
            self._writes = kind
        piece = ThinkingPiece if kind == "thinking" else TextPiece
        deltas.append(piece((self._scope, self._count), text))

    def end(self, deltas: list[Delta]) -> None:
        """Say that no parts follow."""
        self._pause(deltas)
        self._leave_call(deltas)

    def _pause(self, deltas: list[Delta]) -> None:
        """End the block of text that goes on."""
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

    # Calls

    def read_call(
        self,
        call: FunctionCall,
        where: JsonPath,
        deltas: list[Delta],
        *,
        item: _Item | None = None,
        may_be_cut: bool = False,
    ) -> None:
        """Take a call, or a piece of one. With a name it is a new one; an empty one ends it."""
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
        opened: _OpenCall,
        call: FunctionCall,
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
                path = opened.paths[written] = parse_path(written)
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
        """Leave the open call, which was not closed: its last word was that more comes."""
        if self._call is not None:
            deltas.append(CallClosed(self._call.key, cut=True))
        self._call = None

    # What Gemini runs itself, and the rest

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
            CallOpened(key, self._running, text_of(field_of(call, "toolType")), "server"),
            ArgumentValue(key, (), call.get("args") or {}),
            Opaque(key, {name: without(call, "args"), **rest}),
            CallClosed(key),
        ]

    def _run(self, call: _Item, deltas: list[Delta]) -> _Key:
        """Note what Gemini runs; it gets an id if it has none, so that its result finds it."""
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
        call = field_of(item, "functionCall")
        kept = {name: call[name] for name in ("id", "name") if name in call}
        rest = without(item, "functionCall", "function_call")
        deltas.append(Opaque(key, {"functionCall": kept, **rest}))


def _value(leaf: PartialArg) -> int | float | None:
    """Give the value of a leaf that is no string; None if it says nothing of one."""
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
    """Refuse a leaf with a value of a kind that we do not know: it is not null."""
    fields = fields_of(leaf)
    if unknown := fields.keys() - _OF_A_LEAF:
        raise UnreadableError(f"an argument of an unknown kind: {min(unknown)}")
