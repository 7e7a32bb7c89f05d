"""Which tool looks how: what was registered, and a guess for all others."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from argstream.deltas import FREE_TEXT_KINDS, CallKind
from argstream.errors import UsageError
from argstream.events import (
    ArgumentCompleted,
    ArgumentDelta,
    ArgumentStarted,
    ToolArgsDelta,
    ToolCallStarted,
)
from argstream.jsonstream import JsonPath
from argstream.jsonstream.kinds import kind_of
from argstream.terminal.looks._call_view import CallView
from argstream.terminal.looks._free_text import FreeTextView
from argstream.terminal.looks._guarded import GuardedView
from argstream.terminal.looks._guessing import Guessed
from argstream.terminal.looks._pending import Files, PendingCalls, ReadFile
from argstream.terminal.looks._placing import Declared, Placement
from argstream.terminal.looks._wording import note, said
from argstream.terminal.looks.declarations import Declaration, Look, Plain
from argstream.terminal.looks.view import ArgumentEvent, ArgumentsView, OwnLook
from argstream.terminal.spans import Line
from argstream.validation import ToolSpec

__all__ = ["Looks"]


class Looks:
    """How the arguments of each tool look."""

    def __init__(
        self,
        looks: Mapping[str, Look] | None = None,
        *,
        tools: Iterable[ToolSpec] = (),
        read_file: ReadFile | None = None,
    ) -> None:
        """Register looks by the names of tools.

        The schemas of ``tools`` help to guess the looks of the others. With ``read_file``, such as
        ``file_reader`` makes, edits are shown in their place.
        """
        self._looks = dict(looks or {})
        self._tools = {tool.name: tool for tool in tools}
        self._read_file = read_file
        self._pending = PendingCalls()
        for name, look in self._looks.items():
            if isinstance(look, type) or not isinstance(look, Declaration | OwnLook):
                raise UsageError(
                    f"the look of {name!r} must be File(…), Diff(…), Command(…), Table(…), Plain() "
                    f"or something with a view(call) method, not {look!r}"
                )

    def view(self, call: ToolCallStarted, *, is_past: bool = False) -> ArgumentsView:
        """Make the view of one call.

        Edits are shown as they apply after those of the calls before it in its turn. Of a call that
        is past, nobody knows what was in the files then: they are not looked at.
        """
        files = self._pending.begin(call, None if is_past else self._read_file)
        look = self._looks.get(call.name)
        if isinstance(look, OwnLook):
            plain = self._view(call, Plain(), files, has_title=False)
            return GuardedView(partial(look.view, call), plain)
        return self._view(call, look, files, has_title=True)

    def whole(
        self, name: str, arguments: Mapping[str, Any] | str, *, call_id: str | None = None
    ) -> list[Line]:
        """Show complete arguments at once, title included: nothing is left out, ever.

        What a look of your own leaves out nobody knows, so all is shown plainly after it. With the
        id of a call of which a view was made, it comes after the calls before that one.
        """
        kind: CallKind = "custom" if isinstance(arguments, str) else "function"
        call = ToolCallStarted(call_id or "", 0, name, kind)
        files = self._pending.again(call_id, self._read_file)
        events = list(_events(name, arguments))
        look = self._looks.get(name)
        if not isinstance(look, OwnLook):
            return _all_lines(self._view(call, look, files, has_title=False), events)
        plain = self._view(call, Plain(), files, has_title=False)
        view = GuardedView(partial(look.view, call), plain)
        lines = _all_lines(view, events)
        if view.title:
            lines.insert(0, said(*view.title))
        plain = self._view(call, Plain(), files, has_title=False)
        return [*lines, note("all arguments:"), *_all_lines(plain, events)]

    def settle(self, call_id: str) -> None:
        """Say that a call has ended, however it did: what it did to files can be read there."""
        self._pending.settle(call_id)

    def _view(
        self,
        call: ToolCallStarted,
        look: Declaration | None,
        files: Files,
        *,
        has_title: bool,
    ) -> ArgumentsView:
        if call.kind in FREE_TEXT_KINDS:
            return FreeTextView(call.kind, look)
        placement: Placement
        if look is None:
            placement = Guessed(call.name, self._tools.get(call.name))
        else:
            placement = Declared(look)
        return CallView(placement, files, has_title=has_title)


def _all_lines(view: ArgumentsView, events: Iterable[ArgumentEvent]) -> list[Line]:
    for event in events:
        view.take(event)
    return view.settled() + view.finish()


def _events(name: str, arguments: Mapping[str, Any] | str) -> Iterator[ArgumentEvent]:
    """Tell of complete arguments as if they came."""
    if isinstance(arguments, str):
        yield ToolArgsDelta("", name, arguments)
    else:
        for key, value in arguments.items():
            yield from _events_of(name, (_key(key),), value)


def _events_of(name: str, path: JsonPath, value: Any) -> Iterator[ArgumentEvent]:
    kind = kind_of(value)
    if kind is not None:
        yield ArgumentStarted("", name, path, kind)
    if isinstance(value, str) and value:
        yield ArgumentDelta("", name, path, value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _events_of(name, (*path, _key(key)), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _events_of(name, (*path, index), item)
    yield ArgumentCompleted("", name, path, value)


def _key(key: Any) -> str:
    """Give the name of a value; no JSON has others than texts, but code may."""
    return key if isinstance(key, str) else repr(key)
