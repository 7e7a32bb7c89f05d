"""Find the call that an entry of ``tool_calls`` belongs to, for all Chat Completions servers.

- A known ID decides, at any index. Then the index decides; there, a new ID with a name opens a new
  call, and a new ID alone is an unstable ID. An entry without either continues the last call.
- A different name after arguments have begun opens a new call. So does any name without index and
  ID, if an object begins with it.
- The same name again, at the same index and without any ID, opens a new call if the arguments so
  far are a whole JSON object and another object begins. Some servers give all calls index 0 and an
  empty ID; others repeat the name in every chunk of one call.
- Other repeated names are ignored, and pieces of a name are joined. Arguments that arrive before
  the name are buffered.
"""

from typing import Any

from msgspec import Struct

from argstream.history import CallKind
from argstream.jsonstream import Done, Parser
from argstream.providers import _deltas as d
from argstream.providers._payloads import refuse_duplicate_keys

_new = tuple.__new__  # half the cost of calling the class, on the path of every piece

_NO_ID = ("", "null", "None")  # Mistral writes the word where others omit the ID


class EntryFunction(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | list[Any] | None = None
    input: str | None = None  # of a custom tool


class Entry(Struct, gc=False):
    """A piece of a call. Any field may be missing."""

    index: int | None = None
    id: str | int | None = None
    type: str | None = None
    function: EntryFunction | None = None
    custom: EntryFunction | None = None
    extra_content: dict[str, Any] | None = None  # Gemini's thought signature, to be sent back


class _Call(Struct, eq=False):
    key: tuple[int, str, int]
    id: str
    kind: CallKind
    name: str = ""
    opened: bool = False
    has_arguments: bool = False
    has_value: bool = False  # whether arguments arrived as an object
    held: list[d.Delta] = []  # deltas that arrived before the name
    extra: dict[str, Any] | None = None
    unparsed: list[str] = []  # argument text that is_whole() has not parsed yet
    _parser: Parser | None = None
    _ended: bool = False

    def is_whole(self) -> bool:
        """Return True if the arguments so far are one JSON object. Only for calls without an ID."""
        if self.kind == "custom":
            return False  # its input is free text
        if self._parser is None:
            self._parser = Parser()
        for text in self.unparsed:
            fragments = self._parser.feed(text)
            self._ended |= any(type(one) is Done and not one.path for one in fragments)
        self.unparsed.clear()
        is_object = self._ended and isinstance(self._parser.value, dict)
        return self.has_value or (is_object and self._parser.error is None)


class CallFinder:
    def __init__(self, choice: int = 0) -> None:
        self._choice = choice
        self.has_values = False  # whether unchecked arguments arrived as an object
        self.count = 0
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._named_again: dict[int, _Call] = {}  # complete calls whose name was repeated, by index
        self._last: _Call | None = None
        self._legacy: _Call | None = None
        self._interleaves = False  # whether a call continued after a later one had begun

    def read(self, entry: Entry, deltas: list[d.Delta]) -> None:
        name: str | None = None
        arguments: object = None
        if entry.function is not None:
            name, arguments = entry.function.name, entry.function.arguments
        elif entry.custom is not None:
            name, arguments = entry.custom.name, entry.custom.input
        id_ = entry.id
        # Nearly every entry is the next piece of the call that was last written to.
        call = self._by_index.get(entry.index) if entry.index is not None else None
        if call is None or id_ or name:
            id_ = "" if id_ is None or id_ in _NO_ID else str(id_)
            kind: CallKind = "custom" if entry.custom or entry.type == "custom" else "function"
            call = self._find(entry.index, id_, name or "", arguments, kind)
        self._last = call
        if call is not self._calls[-1]:
            self._interleaves = True
        if entry.extra_content:
            call.extra = {**(call.extra or {}), "extra_content": entry.extra_content}
        if not name and call.opened and type(arguments) is str:  # nearly always
            if arguments:
                call.has_arguments = True
                if not call.id:
                    call.unparsed.append(arguments)
                deltas.append(_new(d.ArgumentText, (call.key, arguments)))
        else:
            self._append(call, name or "", arguments, deltas)

    def read_legacy(self, function: EntryFunction, deltas: list[d.Delta]) -> None:
        """Read a piece of a ``function_call``. There is at most one call, without an ID."""
        call = self._legacy
        if call is None or (function.name not in (None, "", call.name) and call.has_arguments):
            call = self._legacy = self._new("", "function")
        self._last = call
        self._append(call, function.name or "", function.arguments, deltas)

    def check_values(self, payload: object) -> None:
        """Raise ``UnreadableError`` if this payload has arguments with a duplicate key."""
        if self.has_values:
            self.has_values = False
            refuse_duplicate_keys(payload)

    def flush(self, deltas: list[d.Delta]) -> None:
        """Open the calls that never got a name, and add the fields that must be sent back."""
        for call in self._calls:
            if not call.opened:
                self._open(call, deltas)
            if call.extra:
                deltas.append(d.Opaque(call.key, call.extra))
                call.extra = None

    def implicit_closes(self) -> list[d.CallClosed]:
        """Return a close for each call before the last one.

        Incomplete JSON is detected later. Free text is closed only if calls are not interleaved.
        """
        return [
            d.CallClosed(call.key)
            for call in self._calls
            if call is not self._last and (call.kind == "function" or not self._interleaves)
        ]

    def _find(
        self, index: int | None, id_: str, name: str, arguments: object, kind: CallKind
    ) -> _Call:
        call = self._by_id.get(id_) if id_ else None
        begins = _begins_object(arguments)
        if call is None and index is not None:
            call = self._by_index.get(index)
            if call is not None and id_ and name and call.id:
                call = None  # a new ID with a name
            elif call is None and (named := self._named_again.get(index)) is not None:
                if not (name or id_ or arguments):
                    return named  # still undecided
                del self._named_again[index]
                call = named
                if begins and not name:
                    call = self._new(id_, kind)
                    call.name = named.name
        elif call is None and not id_:
            call = self._last
        if call is not None and name and call.name:
            is_anonymous = index is None and not id_
            is_another = name != call.name and (call.has_arguments or is_anonymous)
            if is_another or (call.has_arguments and is_anonymous and begins):
                call = None  # another tool, or another call of the same tool
            elif index is not None and not (id_ or call.id) and call.is_whole():
                if not begins:
                    # A repetition, or the name of a call whose arguments follow.
                    self._by_index.pop(index, None)
                    self._named_again[index] = call
                    return call
                call = None
        if call is None:
            call = self._new(id_, kind)
        if index is not None:
            self._by_index[index] = call
        if id_:
            if not call.id:
                call.id = id_
                if call.opened:
                    # Too late for the call's own ID, but results must be sent back with it.
                    call.extra = {**(call.extra or {}), "id": id_}
            self._by_id[id_] = call
        return call

    def _new(self, id_: str, kind: CallKind) -> _Call:
        call = _Call((self._choice, "call", self.count), id_, kind)
        self._calls.append(call)
        self.count += 1
        return call

    def _append(self, call: _Call, name: str, arguments: object, deltas: list[d.Delta]) -> None:
        if name and name != call.name:
            # Either the next piece of the name, or the whole name so far.
            call.name = name if name.startswith(call.name) else call.name + name
            if call.opened:
                deltas.append(d.CallRenamed(call.key, call.name))
        if call.name and not call.opened:
            # Open at the first piece of the name, so that the tool is visible early.
            self._open(call, deltas)
        if arguments is None or arguments == "" or arguments == []:
            return
        call.has_arguments = True
        piece: d.Delta
        if isinstance(arguments, str):
            piece = d.ArgumentText(call.key, arguments)
            if not call.id:
                call.unparsed.append(arguments)
        else:
            piece = d.ArgumentValue(call.key, (), arguments)
            call.has_value = True
            self.has_values = True
        if call.opened:
            deltas.append(piece)
        else:
            call.held.append(piece)

    def _open(self, call: _Call, deltas: list[d.Delta]) -> None:
        call.opened = True
        deltas.append(d.CallOpened(call.key, call.id, call.name, call.kind, may_be_renamed=True))
        deltas += call.held
        call.held = []


def _begins_object(arguments: object) -> bool:
    return isinstance(arguments, dict) or (
        isinstance(arguments, str) and arguments.lstrip().startswith("{")
    )
