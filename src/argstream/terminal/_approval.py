"""Approvals in the terminal: a user sees what is to run, and approves, denies or edits it.

An approval must be meant. A key counts if it comes alone, after the question has been on the screen
for a moment in which nothing was typed. A key that lets a call run counts only if the call is the
last thing on the screen; else its arguments are shown again, and the key must be pressed again.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, Protocol, Self, TextIO, TypeAlias, runtime_checkable

from argstream.errors import UsageError
from argstream.events import ApprovalRequested, ApprovalScope
from argstream.runs._records import Approval, Approve, Deny
from argstream.terminal._editor import (
    Documents,
    EditorError,
    NotReadableError,
    argument_changes,
    edit,
    editor_command,
    same,
)
from argstream.terminal._keyboard import HangupError, Key, Keyboard, LineEditor, is_terminal
from argstream.terminal._layout import rows_of, width
from argstream.terminal._live import Terminal
from argstream.terminal._text import Line, Span, Spans, line, shown, text_of
from argstream.terminal.tool_views import ToolViews

_INDENT: Final = Span("  ")
_SEPARATOR: Final = Span(" · ", "faint")
_WHY: Final = Span("  why? ", "prompt")
_MAX_VALUE: Final = 60
_MAX_VALUES: Final = 6
_EDITING: Final = (
    "opens the arguments in $VISUAL or $EDITOR, a text of several lines as a file of its own, for "
    'which arguments.json says {"file": …}; nothing runs before you have seen what you changed'
)
_KEYS: Final = (
    ("y", "runs the call, exactly as it is shown"),
    ("n", "does not run it; the model is told, and goes on"),
    ("d", "does not run it, and tells the model why, in your words"),
    ("e", _EDITING),
    ("a", "runs it, and asks no more for calls like this while the conversation lasts"),
    ("v", "shows all arguments once more"),
    ("Ctrl-C", "stops the run"),
)
HELP: Final[tuple[Line, ...]] = tuple(
    line(what, margin=(Span("  "), Span(key, "key"), Span(" " * (8 - len(key)))))
    for key, what in _KEYS
)
ANY_KEY: Final = "any"
_QUIET_SECONDS: Final = 0.3
# If it may have been meant for the question before; keys begin to repeat after at most 0.7 s.
_WARY_SECONDS: Final = 1.0
_SEVERAL: Final = "Several keys at once, or a paste, are no answer: press one."
_TOO_SOON: Final = "That was quicker than you can read: press it again."
_TURN_SECONDS: Final = 0.05
_RECENT_SECONDS: Final = 2.0  # how long a key may have been meant for the question before
_turns: Final[list["Turn"]] = []  # in the order in which they came
_answered: Final[dict[Hashable, tuple[str, float]]] = {}  # by keyboard: the last key, and when
_LOOK_AGAIN: Final = "Something else came in between: look again, then press it again."
_SETTLING_SECONDS: Final = 0.2  # how long it may take until the request is shown
# Raises UsageError if a decision on a call is not possible.
Check: TypeAlias = Callable[[str, Approval], None]
# Returns lines with all arguments of a call.
View: TypeAlias = Callable[[str, Mapping[str, Any]], list[Line]]
_UNCHANGED: Final = "Nothing was changed. (An editor in a window must wait: code --wait.)"


class Choice(NamedTuple):
    key: str
    label: str
    runs: bool = False  # whether the call runs then


_BACK: Final = Choice("Esc", "back")


@runtime_checkable
class AskingTerminal(Protocol):
    """What an approver needs of a live terminal."""

    def say(self, *lines: Line, about: object = None) -> None:
        """Commit lines of ours."""

    def is_last(self, about: object) -> bool:
        """Return whether the last committed lines are about this."""

    def ask(
        self, tail: Callable[[float, int, int], list[Line]] | None, *, alone: bool = False
    ) -> None:
        """Show a question at the bottom; ``alone``: nothing is committed meanwhile."""

    def asked_since(self) -> float | None:
        """Return since when the question is visible. Asking again starts anew."""

    def tail_size(self) -> tuple[int, int]:
        """Return the columns and rows for the question."""

    def suspended(self) -> AbstractContextManager[object]:
        """Leave the terminal to another program."""


@dataclass(frozen=True)
class Prompt:
    question: Spans
    choices: tuple[Choice, ...]
    short: Spans  # the question without its mark, where there is no room for it
    notes: tuple[Span, ...] = ()  # paragraphs below the question: why it is asked, or what is wrong
    detail: Spans = ()  # may be cut: it stands behind everything else in the row of the question
    entry: LineEditor | None = None  # what is typed
    hint: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(choice.key.lower() for choice in self.choices)

    def runs(self, key: str) -> bool:
        return any(choice.runs for choice in self.choices if choice.key.lower() == key)

    def fits(self, columns: int, rows: int) -> bool:
        """Return whether everything that matters can be seen."""
        return len(self._whole(columns, ())) <= rows

    def can_be_read(self, columns: int) -> bool:
        """Return whether at least all of its keys can be seen, with the rest above."""
        return width(self._bare_keys.text) <= columns

    def paragraphs(self) -> list[Line]:
        notes = [line(note, margin=(_INDENT,)) for note in self.notes]
        return [self._question, *notes, line(*_keys(self.choices), margin=(_INDENT,))]

    def lines(self, columns: int, rows: int, status: str = "") -> list[Line]:
        hint = Span(self.hint, "warning")
        behind = _behind(Span(status, "warning"), *self.detail)
        whole = self._whole(columns, behind)
        if len(whole) > rows:
            return self._reminder(columns, rows, Span(status, "warning"), hint)
        room = rows - len(whole)
        if not self.hint:
            return whole
        if not room:
            return self._whole(columns, _behind(hint))
        hints = [Line(row) for row in rows_of(line(hint, margin=(_INDENT,)), columns)]
        return whole + (hints if len(hints) <= room else [line(_INDENT, hint)])

    @property
    def _question(self) -> Line:
        return Line(self.question, rest=(_INDENT,), breaks="words")

    @property
    def _bare_keys(self) -> Span:
        return Span("/".join(choice.key for choice in self.choices), "key")

    def _whole(self, columns: int, behind: Spans) -> list[Line]:
        """Return all rows except those of the hint. What is behind the question may be cut."""
        *questions, last = rows_of(self._question, columns)
        entries = [_entry_row(self.entry, columns)] if self.entry is not None else []
        keys = _key_rows(self.choices, columns)
        return [*map(Line, questions), Line(last + behind), *self._notes(columns), *entries, *keys]

    def _notes(self, columns: int) -> Iterator[Line]:
        for note in self.notes:
            yield from map(Line, rows_of(line(note, margin=(_INDENT,)), columns))

    def _reminder(self, columns: int, rows: int, status: Span, hint: Span) -> list[Line]:
        """Return one or two rows where there is no room: the rest was said above."""
        question = (Span("? ", "prompt"), *self.short)
        if self.entry is not None:
            return [Line(question), _entry_row(self.entry, columns)][-rows:]
        if not self.can_be_read(columns):
            return [line(Span("make this wider", "warning"))]
        keys = self._bare_keys
        together = (*question, Span(" "), keys)
        does_fit = width(text_of(together)) <= columns
        if rows == 1:
            first = together if does_fit else (keys, Span(" "), *self.short)
            return [Line(first + _behind(hint, status))]
        if not does_fit:
            return [Line(question + _behind(status)), Line((_INDENT, keys, *_behind(hint)))]
        hints = [line(_INDENT, hint)] if hint.text else []
        return [Line(together + _behind(status)), *hints]


class Turn:
    """A place in the queue for a screen and a keyboard."""

    def __init__(self, screen: object, keyboard: Hashable) -> None:
        self.screen = screen
        self.keyboard = keyboard
        self.number: int = 1 + max((other.number for other in self._neighbours()), default=0)
        self.since = time.monotonic()

    @property
    def is_next(self) -> bool:
        return next(self._neighbours()) is self

    @property
    def position(self) -> str:
        last = max(other.number for other in self._neighbours())
        return f"{self.number} of {last}" if last > 1 else ""

    @property
    def key_before(self) -> str:
        key, when = _answered.get(self.keyboard, ("", 0.0))
        return key if time.monotonic() - when < _RECENT_SECONDS else ""

    def answered(self, key: str) -> None:
        _answered[self.keyboard] = key, time.monotonic()

    def _neighbours(self) -> Iterator["Turn"]:
        """Yield all turns at the same screen or keyboard, this one included once it is queued."""
        for other in tuple(_turns):  # another thread may change it
            if other.screen is self.screen or other.keyboard == self.keyboard:
                yield other


class Subject(NamedTuple):
    about: object  # the object by which the terminal knows it
    lines: Callable[[], list[Line]]


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
        terminal: Terminal | AskingTerminal | None,
        *,
        check: Check | None = None,
        looks: ToolViews | None = None,
        source: TextIO | None = None,
        how_to_allow: str = "run it in a terminal",
    ) -> None:
        """Ask at a terminal; ``looks`` say how arguments look, ``source`` is standard input.

        ``how_to_allow`` begins with a verb, and is shown where there is no user.
        ``check`` is given the id of a call and a decision, and raises UsageError if edited
        arguments do not fit: then they can be edited again.
        """
        self.check = check
        self.on_key: Callable[[], None] | None = None  # called for every key, whatever it means
        self._place = terminal if isinstance(terminal, AskingTerminal) else None
        self._how_to_allow = how_to_allow
        self._looks = ToolViews() if looks is None else looks
        self._source = sys.stdin if source is None else source

    async def __call__(self, request: ApprovalRequested) -> Approval:
        """Ask. The question disappears if this is cancelled."""
        if self._place is None or not is_terminal(self._source):
            return Deny(f"no one can be asked here: to allow it, {self._how_to_allow}")
        keyboard = os.fstat(self._source.fileno()).st_rdev
        async with turn(self._place, keyboard) as own:
            return await self._decision(request, self._place, own)

    async def _decision(
        self, request: ApprovalRequested, place: AskingTerminal, own: Turn
    ) -> Approval:
        keyboard = Keyboard(self._source, self.on_key)
        dialogue = Dialogue(
            request,
            place,
            keyboard,
            check=self.check,
            view=partial(self._looks.whole, call_id=request.call_id),
            turn=own,
        )
        try:
            with keyboard.listening(), dialogue:
                return await dialogue.decision()
        except HangupError:
            return Deny("no one can be asked: the terminal was closed")


class Dialogue:
    """Asks about one call. Leaving ``with`` removes the question from the screen."""

    def __init__(
        self,
        request: ApprovalRequested,
        place: AskingTerminal,
        keyboard: Keyboard,
        *,
        check: Check | None,
        view: View,
        turn: Turn,
    ) -> None:
        self._request = request
        self._place = place
        self._keyboard = keyboard
        self._check = check
        self._view = view
        self._asking = Asking(place, keyboard, turn, request.expires_at)
        self._subject = Subject(request, self._whole)
        self._folder: TemporaryDirectory[str] | None = None
        self._documents: Documents | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._asking.end()
        if self._folder is not None:
            self._folder.cleanup()

    async def decision(self) -> Approval:
        await self._asking.settle()
        hint = ""
        while True:
            prompt = main_prompt(self._request, has_changes=self._has_changes(), hint=hint)
            answer = await self._answer(await self._asking.choose(prompt, self._subject))
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
            case "v":
                self._place.say(*self._whole(), about=self._request)
            case _:
                self._place.say(*HELP, about=self._request)
        return ""

    def _whole(self) -> list[Line]:
        """Return the call as it would run, to the last character."""
        whole = self._view(self._request.name, self._request.arguments)
        heading = line(shown(self._request.name, "tool"), Span(" would run with:", "prompt"))
        return [heading, *whole]

    def _approval(
        self,
        arguments: Mapping[str, Any] | None = None,
        always: ApprovalScope = "call",
    ) -> Approve:
        return Approve(arguments=arguments, always=always, digest=self._request.digest)

    async def _always(self) -> Approval | str:
        prompt = always_prompt(self._request, has_changes=self._has_changes())
        key = await self._asking.choose(prompt, self._subject)
        if key == "esc":
            return ""
        return self._approval(always="rule" if key == "r" else "conversation")

    async def _reason(self) -> Approval | str:
        entry = LineEditor()
        prompt = reason_prompt(self._request, entry)
        self._asking.explain(prompt)
        self._asking.show(prompt)
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
                documents = self._made_documents()
                await self._run_editor(documents)
                decision = self._read_edit(documents)
            except EditorError as failure:
                return f"{failure}."
            except (NotReadableError, UsageError) as problem:
                key = await self._asking.choose(mend_prompt(str(problem)))
                continue
            if decision is None:
                return _UNCHANGED
            key = await self._asking.choose(confirm_prompt(self._request), self._changes(decision))
        if key == "n":
            return Deny()
        return decision if key == "y" and decision is not None else ""

    def _read_edit(self, documents: Documents) -> Approve | None:
        """Return the edited arguments as a decision; None if nothing differs."""
        arguments = documents.read()
        if same(arguments, self._request.arguments):
            return None
        decision = self._approval(arguments)
        if self._check is not None:
            self._check(self._request.call_id, decision)
        return decision

    def _changes(self, decision: Approve) -> Subject:
        changes = argument_changes(self._request.arguments, decision.arguments or {})
        heading = line(Span("Your changes:", "strong"), margin=(_INDENT,))
        return Subject(decision, lambda: [heading, *changes])

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
                raise EditorError(f"the files cannot be written: {error.strerror}") from None
        return self._documents

    async def _run_editor(self, documents: Documents) -> None:
        command = editor_command(os.environ)
        with self._keyboard.left(), self._place.suspended():
            await edit(command, documents.paths, self._keyboard.file)


class Asking:
    """Asks one thing after the other, in a turn that one has."""

    def __init__(
        self, place: AskingTerminal, keyboard: Keyboard, turn: Turn, expires_at: float | None
    ) -> None:
        self._place = place
        self._keyboard = keyboard
        self._turn = turn
        self._expires_at = expires_at
        self._prompt: Prompt | None = None
        self._explained: Prompt | None = None  # said above, since it did not fit
        self._is_alone = False

    def end(self) -> None:
        self._prompt = None
        with suppress(UsageError):  # the terminal was closed before
            self._place.ask(None)

    async def settle(self) -> None:
        """Wait a moment for what comes at the same time: the request, and others beside it."""
        await asyncio.sleep(max(self._turn.since + _SETTLING_SECONDS - time.monotonic(), 0))

    async def choose(self, prompt: Prompt, subject: Subject | None = None) -> str:
        before, hint = self._turn.key_before, prompt.hint
        self._keyboard.flush()
        self._say_missing(prompt, subject)
        while True:
            self.show(replace(prompt, hint=hint))
            keys, now = await self._keyboard.read(), time.monotonic()
            if not keys:  # another program may have written on the screen
                self._say_missing(prompt, subject, is_any_seen=False)
                continue
            answer = answer_of(
                keys,
                prompt.keys,
                self._stood(prompt, now),
                before=before,
                is_alone=not await self._keyboard.is_more_coming(),
            )
            before, hint = "", answer.hint  # a user who continues has seen this one
            if answer.key and prompt.runs(answer.key) and self._say_missing(prompt, subject):
                before, hint, self._is_alone = answer.key, _LOOK_AGAIN, True
            elif answer.key:
                self._turn.answered(answer.key)
                return answer.key

    def _stood(self, prompt: Prompt, now: float) -> float | None:
        since = self._place.asked_since()
        columns, _ = self._place.tail_size()
        return None if since is None or not prompt.can_be_read(columns) else now - since

    def show(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self._place.ask(self._tail, alone=self._is_alone)

    def explain(self, prompt: Prompt, about: object = None) -> bool:
        """Print above, once, what does not fit below. Return whether anything was printed."""
        bare = replace(prompt, hint="")
        if bare == self._explained or prompt.fits(*self._place.tail_size()):
            return False
        self._explained = bare
        self._place.say(*prompt.paragraphs(), about=about)
        return True

    def _say_missing(
        self, prompt: Prompt, subject: Subject | None, *, is_any_seen: bool = True
    ) -> bool:
        """Print what must be read before an answer. Return whether anything was printed."""
        if not is_any_seen:
            self._explained = None
        if subject is None:
            return self.explain(prompt)
        is_missing = not (is_any_seen and self._place.is_last(subject.about))
        if is_missing:
            self._place.say(*subject.lines(), about=subject.about)
        return self.explain(prompt, subject.about) or is_missing

    def _tail(self, _now: float, columns: int, rows: int) -> list[Line]:
        prompt = self._prompt
        if prompt is None:
            return []
        parts = [self._turn.position]
        if self._expires_at is not None:
            parts.append(remaining(self._expires_at - time.time()))
        return prompt.lines(columns, rows, " · ".join(filter(None, parts)))


class Answer(NamedTuple):
    """A key that answers the question, or a hint that says why it does not."""

    key: str = ""  # in lower case; `esc` for Escape
    hint: str = ""


def answer_of(
    keys: Sequence[Key],
    choices: Sequence[str],
    stood: float | None,
    *,
    before: str = "",
    is_alone: bool = True,
) -> Answer:
    """Return what the keys that came together answer.

    ``stood`` is for how many seconds the question has stood on the screen with nothing typed; None
    if it was not visible. ``before`` is the key that answered another question just now, or
    ``ANY_KEY`` if that question has disappeared. ``is_alone``: no key followed these at once.
    """
    hint = _hint(keys, choices) if is_alone else _SEVERAL
    if hint:
        return Answer(hint=hint)
    key = _name(keys[0])
    quiet = _WARY_SECONDS if before in (key, ANY_KEY) else _QUIET_SECONDS
    return Answer(hint=_TOO_SOON) if stood is None or stood < quiet else Answer(key)


def _hint(keys: Sequence[Key], choices: Sequence[str]) -> str:
    if len(keys) > 1 or keys[0].kind == "paste":
        return _SEVERAL
    if keys[0].kind == "enter":
        return "Enter alone is no answer."
    return "" if _name(keys[0]) in choices else "That key is none of these."


def _name(key: Key) -> str:
    if key.kind == "escape":
        return "esc"
    return key.text.lower() if key.kind == "character" else ""


@asynccontextmanager
async def turn(screen: object, keyboard: Hashable) -> AsyncIterator[Turn]:
    """Wait for the turn, and hold it."""
    own = Turn(screen, keyboard)
    _turns.append(own)
    has_answer = False
    try:
        while not own.is_next:
            await asyncio.sleep(_TURN_SECONDS)
        yield own
        has_answer = True
    finally:
        if (
            own.is_next and not has_answer
        ):  # it disappears while the user may be about to press a key
            own.answered(ANY_KEY)
        _turns.remove(own)


def main_prompt(request: ApprovalRequested, *, has_changes: bool, hint: str = "") -> Prompt:
    """Ask whether the call may run as it is, whatever was typed in the editor."""
    name = shown(request.name, "tool")
    how = " as the model wrote it, without your changes?" if has_changes else "?"
    how_in_short = " without your changes?" if has_changes else "?"
    return Prompt(
        (Span("? Run ", "prompt"), name, Span(how, "prompt")),
        (
            Choice("y", "yes", runs=True),
            Choice("n", "no"),
            Choice("d", "no, say why"),
            Choice("e", "edit again" if has_changes else "edit"),
            Choice("a", "always"),
            Choice("v", "view all"),
            Choice("?", "help"),
        ),
        (Span("Run ", "prompt"), name, Span(how_in_short, "prompt")),
        (Span("What you have changed is not used; e goes back to it.", "warning"),) * has_changes,
        detail=(arguments_in_short(request.arguments),),
        hint=hint,
    )


def always_prompt(request: ApprovalRequested, *, has_changes: bool) -> Prompt:
    """Ask which later calls need no approval, of those for which that is possible."""
    choices = [Choice("t", "any call of this tool", runs=True)]
    notes = [shown(f"t: {request.name}, whatever its arguments", "faint")]
    if request.rule is not None:
        choices.append(Choice("r", "all that this rule asks about", runs=True))
        notes.append(shown(f"r: {request.rule}", "faint"))
    what = "it as the model wrote it" if has_changes else "it"
    question = Span(f"? Run {what}, and ask no more in this conversation for …", "prompt")
    short = (Span("Always run it?", "prompt"),)
    return Prompt((question,), (*choices, _BACK), short, tuple(notes))


def reason_prompt(request: ApprovalRequested, entry: LineEditor) -> Prompt:
    name = shown(request.name, "tool")
    question = (Span("? Do not run ", "prompt"), name)
    short = (Span("Do not run ", "prompt"), name)
    return Prompt(question, (Choice("Enter", "send"), _BACK), short, entry=entry)


def mend_prompt(problem: str) -> Prompt:
    question = Span("? The arguments cannot be used as they are now:", "prompt")
    choices = (Choice("e", "edit again"), Choice("n", "do not run it"), _BACK)
    short = (Span("Edit again?", "prompt"),)
    return Prompt((question,), choices, short, (shown(problem, "bad"),))


def confirm_prompt(request: ApprovalRequested) -> Prompt:
    what = (shown(request.name, "tool"), Span(" with these changes?", "prompt"))
    return Prompt(
        (Span("? Run ", "prompt"), *what),
        (Choice("y", "yes", runs=True), Choice("e", "edit again"), Choice("n", "no"), _BACK),
        (Span("Run ", "prompt"), *what),
    )


def arguments_in_short(arguments: Mapping[str, Any]) -> Span:
    """Return what fits into a row, to recognise the call by. All arguments stand above."""
    values = list(arguments.items())[:_MAX_VALUES]
    return shown("  ".join(f"{name}={_short(value)}" for name, value in values), "faint")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    first = text.partition("\n")[0]
    lines = text.count("\n") + (not text.endswith("\n"))
    short = first[:_MAX_VALUE]
    if lines > 1:
        return f"{short}{'…' if short != first else ''} ({lines} lines)"
    return short if short == text else f"{short}…"


def remaining(seconds: float) -> str:
    """Return how much time is left.

    >>> remaining(41.2), remaining(125), remaining(-1)
    ('42 s left', '2 min 5 s left', '0 s left')
    """
    whole = max(int(-(-seconds // 1)), 0)
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s left" if minutes else f"{rest} s left"


def _behind(*pieces: Span) -> Spans:
    return tuple(span for piece in pieces if piece.text for span in (Span("  "), piece))


def _entry_row(entry: LineEditor, columns: int) -> Line:
    return Line((_WHY, *entry.spans(columns - width(_WHY.text))))


def _keys(choices: tuple[Choice, ...]) -> Iterator[Span]:
    for number, choice in enumerate(choices):
        if number:
            yield _SEPARATOR
        yield from (Span(choice.key, "key"), Span(f" {choice.label}"))


def _key_rows(choices: tuple[Choice, ...], columns: int) -> Iterator[Line]:
    """Lay the choices out in as many rows as they need, without breaking a choice."""
    row: tuple[Choice, ...] = ()
    for choice in choices:
        wider = (*row, choice)
        if row and width(text_of((_INDENT, *_keys(wider)))) > columns:
            yield from map(Line, rows_of(line(*_keys(row), margin=(_INDENT,)), columns))
            wider = (choice,)
        row = wider
    yield from map(Line, rows_of(line(*_keys(row), margin=(_INDENT,)), columns))
