"""Approvals in the terminal: a user sees what is to run, and approves, denies or edits it.

An approval must be meant. A key counts if it comes alone, after the question has been on the screen
for a moment in which nothing was typed. A key that lets a call run counts only if the call is the
last thing on the screen; else its arguments are shown again, and the key must be pressed again.
"""

import asyncio
import os
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, TextIO

from argstream.errors import UsageError
from argstream.events import ApprovalRequested, ApprovalScope
from argstream.runs._records import Approval, Approve, Deny
from argstream.sanitise import visible_line
from argstream.terminal._entry import (
    Documents,
    EditorError,
    HangupError,
    Key,
    Keyboard,
    LineEditor,
    argument_changes,
    edit,
    editor_command,
    is_terminal,
    same,
)
from argstream.terminal._layout import rows_of, width
from argstream.terminal._live import LiveTerminal, Terminal
from argstream.terminal._run_view import border, boxed, request_lines
from argstream.terminal._text import Line, Span, Spans, line, shown, text_of
from argstream.terminal.tool_views import ToolViews

_INDENT: Final = Span("  ")
_SEPARATOR: Final = Span("   ")
_REASON: Final = Span("  Reason (optional): ", "prompt")
_CORNER: Final = Span("╰─ ", "warning")
_KEYS: Final = (
    ("y", "approve"),
    ("n", "deny; the agent continues"),
    ("d", "deny and tell the agent why"),
    ("e", "edit the arguments in $EDITOR; you confirm before it runs"),
    ("a", "approve, and don't ask again in this conversation"),
    ("v", "show all arguments"),
    ("Esc", "back to the question before"),
    ("Ctrl-C", "stop the run"),
)
_SIDE: Final = Span("│ ", "warning")
HELP: Final[tuple[Line, ...]] = tuple(
    Line(
        (Span(what),),
        (_SIDE, Span(key, "key"), Span(" " * (8 - len(key)))),
        (_SIDE, Span(" " * 8)),
        "words",
    )
    for key, what in _KEYS
)
ANY_KEY: Final = "any"
_QUIET_SECONDS: Final = 0.3
# If it may have been meant for the question before; keys begin to repeat after at most 0.7 s.
_WARY_SECONDS: Final = 1.0
_PASTED: Final = "Pasted text ignored. Press a single key."
_SEVERAL: Final = "Several keys at once. Press a single key."
_TOO_SOON: Final = "Ignored (pressed before the prompt appeared). Press again to confirm."
_UNKNOWN: Final = "Unknown key. Press ? for help."
_TURN_SECONDS: Final = 0.05
_RECENT_SECONDS: Final = 2.0  # how long a key may have been meant for the question before
# By keyboard: those who ask, in the order in which they came, and the last key that answered.
_queues: Final[defaultdict[int, list["Turn"]]] = defaultdict(list)
_answered: Final[dict[int, tuple[str, float]]] = {}
_LOOK_AGAIN: Final = "The screen changed. Check the call, then press again."
_SOON_SECONDS: Final = 60.0  # how long before the end the seconds are counted down
_SETTLING_SECONDS: Final = 0.2  # how long it may take until the request is shown
_UNCHANGED: Final = 'No changes. (If your editor opens a window, set EDITOR="code --wait".)'


class Choice(NamedTuple):
    key: str
    label: str  # empty: the key works, and only the help names it
    runs: bool = False  # whether the call runs then


_BACK: Final = Choice("Esc", "back")
_HELP: Final = Choice("?", "help")


@dataclass(frozen=True)
class Prompt:
    question: Spans
    choices: tuple[Choice, ...]
    notes: tuple[Span, ...] = ()  # paragraphs below the question
    entry: LineEditor | None = None  # what is typed
    hint: str = ""
    closes_request: bool = False  # below the request, the question needs no words

    @property
    def by_key(self) -> dict[str, Choice]:
        return {"?": _HELP, **{choice.key.lower(): choice for choice in self.choices}}

    def can_be_read(self, columns: int) -> bool:
        """Return whether at least all of its keys can be seen, with the rest above."""
        return width(self._bare_keys.text) <= columns

    def lines(
        self, columns: int, rows: int, status: str = "", *, is_below: bool, is_ready: bool = True
    ) -> list[Line]:
        """Return the rows of the question.

        Right below the request (``is_below``), the keys close its box. Until a key counts
        (``is_ready``), they are faint.
        """
        hint = Span(self.hint, "warning")
        whole = self.whole(columns, status, is_below=is_below, is_ready=is_ready)
        room = rows - len(whole)
        if room < 0 or (self.hint and not room):
            return self._reminder(columns, rows, Span(status, "warning"), hint)
        if not self.hint:
            return whole
        hints = [Line(row) for row in rows_of(line(hint, margin=(_INDENT,)), columns)]
        return whole + (hints if len(hints) <= room else [line(_INDENT, hint)])

    @property
    def _question(self) -> Line:
        return Line((Span("? ", "prompt"), *self.question), rest=(_INDENT,), breaks="words")

    @property
    def _offered(self) -> tuple[Choice, ...]:
        return tuple(choice for choice in self.choices if choice.label)

    @property
    def _bare_keys(self) -> Span:
        return Span("/".join(choice.key for choice in self._offered), "key")

    def whole(
        self, columns: int, status: str = "", *, is_below: bool = False, is_ready: bool = True
    ) -> list[Line]:
        """Return all rows except those of the hint."""
        if is_below:
            told = [line(_SIDE, Span(status, "warning"))] if status else []
            return [*told, *_key_rows(self._offered, columns, _CORNER, is_ready=is_ready)]
        *questions, last = rows_of(self._question, columns)
        entries = [_entry_row(self.entry, columns)] if self.entry is not None else []
        keys = _key_rows(self._offered, columns, _INDENT, is_ready=is_ready)
        first = [*map(Line, questions), Line(last + _behind(Span(status, "warning")))]
        notes = (rows_of(line(note, margin=(_INDENT,)), columns) for note in self.notes)
        return [*first, *map(Line, chain.from_iterable(notes)), *entries, *keys]

    def _reminder(self, columns: int, rows: int, status: Span, hint: Span) -> list[Line]:
        """Return one or two rows where there is no room: the rest is above."""
        question = self._question.spans
        if self.entry is not None:
            return [Line(question), _entry_row(self.entry, columns)][-rows:]
        if not self.can_be_read(columns):
            return [line(Span("terminal too narrow", "warning"))]
        together = (*question, Span(" "), self._bare_keys)
        if width(text_of(together)) > columns:
            together = (self._bare_keys, Span(" "), *self.question)
        if rows == 1 or not hint.text:
            return [Line(together + _behind(hint, status))]
        return [Line(together + _behind(status)), line(_INDENT, hint)]


class Turn:
    """A place in the queue for a keyboard."""

    def __init__(self, keyboard: int) -> None:
        self._keyboard = keyboard
        self._queue = _queues[keyboard]
        self.number: int = self._queue[-1].number + 1 if self._queue else 1
        self.since = time.monotonic()

    @property
    def position(self) -> str:
        last = self._queue[-1].number
        return f"approval {self.number} of {last}" if last > 1 else ""

    @property
    def key_before(self) -> str:
        key, when = _answered.get(self._keyboard, ("", 0.0))
        return key if time.monotonic() - when < _RECENT_SECONDS else ""

    def answered(self, key: str) -> None:
        _answered[self._keyboard] = key, time.monotonic()


class TerminalApprover:
    """Asks with keys, one question at a time at a terminal, in the order in which they came.

    ::

        with open_terminal() as terminal:
            approver = TerminalApprover(terminal)
            run = Agent(model, tools, approver=approver).run_stream("Make the tests pass")
            approver.check = run.check
            async for event in run:
                terminal.show(event)

    What was typed before a question could be seen never answers it. Without a user,
    since standard input or the output is no terminal, each call is denied.
    """

    def __init__(
        self,
        terminal: Terminal | None,
        *,
        looks: ToolViews | None = None,
        source: TextIO | None = None,
        how_to_allow: str = "run it in a terminal",
    ) -> None:
        """Ask at a terminal; ``looks`` say how arguments look, ``source`` is standard input.

        ``how_to_allow`` begins with a verb, and is shown where there is no user.
        """
        # Raises UsageError if edited arguments do not fit: then they can be edited again.
        self.check: Callable[[str, Approval], None] | None = None
        self.on_key: Callable[[], None] | None = None  # called for every key, whatever it means
        self.status: Callable[[], str] = str  # shown above the keys
        self._place = terminal if isinstance(terminal, LiveTerminal) else None
        self._how_to = f"To allow it, {how_to_allow}"
        self.looks: ToolViews = ToolViews() if looks is None else looks
        self._source = sys.stdin if source is None else source

    async def __call__(self, request: ApprovalRequested) -> Approval:
        """Ask. The question disappears if this is cancelled."""
        if self._place is None or not is_terminal(self._source):
            return Deny(f"approval needed, but this is not an interactive terminal. {self._how_to}")
        device = os.fstat(self._source.fileno()).st_rdev
        async with turn(device) as own:
            keyboard = Keyboard(self._source, self.on_key)
            dialogue = Dialogue(request, self, self._place, keyboard, own)
            try:
                with keyboard.listening(), closing(dialogue):
                    return await dialogue.decision()
            except HangupError:
                return Deny("approval needed, but the terminal was closed")


@dataclass(eq=False)
class Dialogue:
    _request: ApprovalRequested
    _approver: TerminalApprover
    _place: LiveTerminal
    _keyboard: Keyboard
    _turn: Turn
    _folder: TemporaryDirectory[str] | None = None
    _documents: Documents | None = None
    _prompt: Prompt | None = None
    _about: object = None  # what the lines that must be above the prompt are about
    _key_before: str = ""
    _explained: Prompt | None = None  # the last one that was printed above, because it did not fit
    _is_alone: bool = False

    def close(self) -> None:
        """Remove the question from the screen."""
        self._prompt = None
        with suppress(UsageError):  # the terminal was closed before
            self._place.ask(None)
        if self._folder is not None:
            self._folder.cleanup()

    async def decision(self) -> Approval:
        # A moment for what comes at the same time: the request, and others beside it.
        await asyncio.sleep(max(self._turn.since + _SETTLING_SECONDS - time.monotonic(), 0))
        hint = ""
        while True:
            prompt = main_prompt(self._request, has_changes=self._has_changes(), hint=hint)
            answer = await self._answer(await self._choose(prompt, self._request, self._whole))
            if not isinstance(answer, str):
                return answer
            hint = answer

    async def _answer(self, key: str) -> Approval | str:
        """Do what a key says. A returned string is a hint, and the question stays."""
        match key:
            case "y":
                return self._approval()
            case "n":
                return Deny()
            case "d":
                return await self._reason()
            case "a":
                return await self._always()
            case "e":
                return await self._edited()
            case _:  # v
                is_below = self._place.is_last(self._request)
                lines = map(boxed, self._arguments()) if is_below else self._whole()
                self._place.say(*lines, about=self._request)
        return ""

    def _arguments(self) -> list[Line]:
        request = self._request
        return self._approver.looks.whole(request.name, request.arguments, call_id=request.call_id)

    def _whole(self) -> list[Line]:
        """Return the call as it would run, to the last character."""
        heading = Line((shown(self._request.name, "tool"),), (Span("● ", "title"),))
        return [heading, *request_lines(self._request, self._arguments())]

    def _approval(
        self, arguments: Mapping[str, Any] | None = None, always: ApprovalScope = "call"
    ) -> Approve:
        return Approve(arguments=arguments, always=always, digest=self._request.digest)

    async def _always(self) -> Approval | str:
        prompt = always_prompt(self._request, has_changes=self._has_changes())
        key = await self._choose(prompt, self._request, self._whole)
        if key == "esc":
            return ""
        return self._approval(always="rule" if key == "r" else "conversation")

    async def _reason(self) -> Approval | str:
        entry = LineEditor()
        question = _question("Deny ", self._request, "?")
        prompt = Prompt(question, (Choice("Enter", "deny"), _BACK), entry=entry)
        self._explain(prompt)
        self._show(prompt)
        while True:
            for key in await self._keyboard.read():
                if key.kind == "escape":
                    return ""
                if key.kind == "enter":
                    return Deny(entry.text.strip())
                entry.take(key)

    # Edits

    async def _edited(self) -> Approval | str:
        key, decision = "e", None
        while key == "e":
            try:
                documents, command = self._made_documents(), editor_command(os.environ)
                with self._keyboard.left(), self._place.suspended():
                    await edit(command, documents.paths, self._keyboard.file)
                decision = self._read_edit(documents)
            except EditorError as failure:
                return f"{failure}."
            except UsageError as problem:
                key = await self._choose(mend_prompt(str(problem)))
                continue
            if decision is None:
                return _UNCHANGED
            prompt = confirm_prompt(self._request)
            key = await self._choose(prompt, decision, partial(self._changes, decision))
        if key == "n":
            return Deny()
        if key == "esc" and decision is not None:
            told = Span("Your edits are not applied", "warning")
            self._place.say(line(told, margin=(_CORNER,)), about=decision)
        return decision if key == "y" and decision is not None else ""

    def _read_edit(self, documents: Documents) -> Approve | None:
        """Return the edited arguments as a decision; None if nothing differs."""
        arguments = documents.read()
        if same(arguments, self._request.arguments):
            return None
        decision = self._approval(arguments)
        if self._approver.check is not None:
            self._approver.check(self._request.call_id, decision)
        return decision

    def _changes(self, decision: Approve) -> list[Line]:
        changes = argument_changes(self._request.arguments, decision.arguments or {})
        return [border("├─ ", "Your edits"), *map(boxed, changes)]

    def _has_changes(self) -> bool:
        return self._documents is not None and self._documents.has_changes()

    def _made_documents(self) -> Documents:
        """Return the files of this question, with what was typed before."""
        if self._documents is None:
            try:
                # Readable for the user only. An editor may leave files there.
                self._folder = TemporaryDirectory(prefix="argstream-", ignore_cleanup_errors=True)
                self._documents = Documents(Path(self._folder.name), self._request.arguments)
            except OSError as error:
                raise EditorError(f"cannot write temporary files: {error.strerror}") from None
        return self._documents

    # Questions

    async def _choose(
        self, prompt: Prompt, about: object = None, lines: Callable[[], list[Line]] = list
    ) -> str:
        """Ask until a key answers, and return it in lower case; ``esc`` for Escape.

        These lines must be above: the terminal knows them by what they are ``about``.
        """
        before, hint = self._turn.key_before, prompt.hint
        self._about = about
        self._keyboard.flush()
        self._say_missing(prompt, lines)
        while True:
            self._key_before = before
            self._show(replace(prompt, hint=hint))
            keys = await self._keyboard.read()
            if not keys:  # another program may have written on the screen
                self._explained = None
                self._say_missing(prompt, lines, is_any_seen=False)
                continue
            key, stood = _name(keys[0]), self._stood(prompt)
            quiet = _WARY_SECONDS if before in (key, ANY_KEY) else _QUIET_SECONDS
            is_alone = not await self._keyboard.is_more_coming()
            hint = _hint(keys, prompt.by_key) if is_alone else _SEVERAL
            hint = hint or (_TOO_SOON if stood < quiet else "")
            before = ""  # a user who continues has seen this one
            if hint:
                continue
            if key == "?":
                self._place.say(*HELP, about=about)
                continue
            if not prompt.by_key[key].runs or not self._say_missing(prompt, lines):
                self._turn.answered(key)
                return key
            before, hint, self._is_alone = key, _LOOK_AGAIN, True

    def _stood(self, prompt: Prompt) -> float:
        """Return for how long the question could be read when the last keys were pressed."""
        since = self._place.asked_since()
        columns, _ = self._place.tail_size()
        if since is None or not prompt.can_be_read(columns):
            return 0.0
        return self._keyboard.pressed_at - since

    def _show(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self._place.ask(self._tail, alone=self._is_alone)

    def _explain(self, prompt: Prompt) -> bool:
        """Print above, once, what does not fit below. Return whether anything was printed."""
        bare = replace(prompt, hint="")
        columns, rows = self._place.tail_size()
        whole = bare.whole(columns)
        if bare == self._explained or len(whole) <= rows:
            return False
        self._explained = bare
        self._place.say(*whole, about=self._about)
        return True

    def _say_missing(
        self, prompt: Prompt, lines: Callable[[], list[Line]], *, is_any_seen: bool = True
    ) -> bool:
        """Print what must be read before an answer. Return whether anything was printed."""
        is_last = is_any_seen and self._place.is_last(self._about)
        is_missing = self._about is not None and not is_last
        if is_missing:
            self._place.say(*lines(), about=self._about)
        return self._explain(prompt) or is_missing

    def _tail(self, _now: float, columns: int, rows: int) -> list[Line]:
        prompt = self._prompt
        if prompt is None:
            return []
        parts = [self._turn.position, self._approver.status()]
        if self._request.expires_at is not None:
            left = self._request.expires_at - time.time()
            if left < _SOON_SECONDS:  # the request has the time
                parts.append(f"expires in {max(ceil(left), 0)} s")
        is_below = prompt.closes_request and self._place.is_last(self._about)
        since = self._place.asked_since()
        quiet = _WARY_SECONDS if self._key_before else _QUIET_SECONDS
        is_ready = since is not None and time.monotonic() - since >= quiet
        told = " · ".join(filter(None, parts))
        return prompt.lines(columns, rows, told, is_below=is_below, is_ready=is_ready)


def _hint(keys: Sequence[Key], choices: Mapping[str, Choice]) -> str:
    if len(keys) > 1 or keys[0].kind == "paste":
        return _PASTED if any(key.kind == "paste" for key in keys) else _SEVERAL
    if keys[0].kind == "enter":
        return "Press y or n." if "y" in choices else _UNKNOWN
    return "" if _name(keys[0]) in choices else _UNKNOWN


def _name(key: Key) -> str:
    if key.kind == "escape":
        return "esc"
    return key.text.lower() if key.kind == "character" else ""


@asynccontextmanager
async def turn(keyboard: int) -> AsyncIterator[Turn]:
    own, queue = Turn(keyboard), _queues[keyboard]
    queue.append(own)
    has_answer = False
    try:
        while queue[0] is not own:
            await asyncio.sleep(_TURN_SECONDS)
            own.since = time.monotonic()
        yield own
        has_answer = True
    finally:
        if queue[0] is own and not has_answer:  # the user may be about to press a key
            own.answered(ANY_KEY)
        queue.remove(own)


def main_prompt(request: ApprovalRequested, *, has_changes: bool, hint: str = "") -> Prompt:
    """Ask whether the call may run as it is, whatever was typed in the editor."""
    how = " unchanged?" if has_changes else "?"
    return Prompt(
        _question("Approve ", request, how),
        (
            Choice("y", "approve", runs=True),
            Choice("n", "deny"),
            Choice("d", "deny with reason"),
            Choice("e", "edit again" if has_changes else "edit"),
            Choice("a", "always"),
            _HELP,
            Choice("v", ""),
        ),
        (Span("Your edits are not applied. Press e to return to them.", "warning"),) * has_changes,
        hint=hint,
        closes_request=not has_changes,
    )


def always_prompt(request: ApprovalRequested, *, has_changes: bool) -> Prompt:
    """Ask which later calls need no approval, of those for which that is possible."""
    name = visible_line(request.name)
    choices = [Choice("t", f"every {name} call", runs=True)]
    if request.rule is not None:
        choices.append(Choice("r", f"calls matching “{visible_line(request.rule)}”", runs=True))
    what = "Approve this call unchanged, and always allow" if has_changes else "Always allow"
    return Prompt((Span(what, "prompt"),), (*choices, _BACK))


def mend_prompt(problem: str) -> Prompt:
    choices = (Choice("e", "edit again"), Choice("n", "deny"), _BACK)
    return Prompt((Span("Invalid arguments:", "prompt"),), choices, (shown(problem, "bad"),))


def confirm_prompt(request: ApprovalRequested) -> Prompt:
    return Prompt(
        _question("Approve ", request, " with these edits?"),
        (
            Choice("y", "approve with edits", runs=True),
            Choice("e", "edit again"),
            Choice("n", "deny"),
            _BACK,
        ),
        closes_request=True,
    )


def _question(before: str, request: ApprovalRequested, after: str) -> Spans:
    return Span(before, "prompt"), shown(request.name, "tool"), Span(after, "prompt")


def _behind(*pieces: Span) -> Spans:
    return tuple(span for piece in pieces if piece.text for span in (Span("  "), piece))


def _entry_row(entry: LineEditor, columns: int) -> Line:
    return Line((_REASON, *entry.spans(columns - width(_REASON.text))))


def _keys(choices: Sequence[Choice], *, is_ready: bool = True) -> Iterator[Span]:
    for number, choice in enumerate(choices):
        if number:
            yield _SEPARATOR
        yield Span(choice.key, "key" if is_ready else "faint")
        yield Span(f" {choice.label}", "plain" if is_ready else "faint")


def _key_rows(
    choices: Sequence[Choice], columns: int, margin: Span, *, is_ready: bool
) -> Iterator[Line]:
    """Lay the choices out in as many rows as they need, without breaking a choice."""
    rows: list[list[Choice]] = [[]]
    for choice in choices:
        wider = [*rows[-1], choice]
        if rows[-1] and width(margin.text + text_of(tuple(_keys(wider)))) > columns:
            rows.append([choice])
        else:
            rows[-1] = wider
    for number, row in enumerate(rows):
        before = Span(" " * width(margin.text)) if number else margin
        keys = line(*_keys(row, is_ready=is_ready), margin=(before,))
        yield from map(Line, rows_of(keys, columns))
