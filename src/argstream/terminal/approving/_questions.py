"""The words of an approval: what is asked, which keys answer, what is explained."""

from typing import Final

from argstream.events import ApprovalRequested
from argstream.terminal.approving._line_editor import LineEditor
from argstream.terminal.approving._prompts import Choice, Prompt, arguments_in_short
from argstream.terminal.spans import Line, Span, line, shown

__all__ = [
    "HELP",
    "always_prompt",
    "changes_heading",
    "confirm_prompt",
    "main_prompt",
    "mend_prompt",
    "reason_prompt",
    "view_heading",
]

_BACK: Final = Choice("Esc", "back")
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
"""What each key does."""


def main_prompt(request: ApprovalRequested, *, has_changes: bool, hint: str = "") -> Prompt:
    """Ask whether the call may run: as it is, whatever somebody has typed in the editor."""
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


def view_heading(request: ApprovalRequested) -> Line:
    """Say what the arguments below are."""
    return line(shown(request.name, "tool"), Span(" would run with:", "prompt"))


def changes_heading() -> Line:
    """Say what the changes below are."""
    return line(Span("Your changes:", "strong"), margin=(Span("  "),))


def always_prompt(request: ApprovalRequested, *, has_changes: bool) -> Prompt:
    """Ask what need not be asked about again: only what is possible."""
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
    """Ask why not."""
    name = shown(request.name, "tool")
    question = (Span("? Do not run ", "prompt"), name)
    short = (Span("Do not run ", "prompt"), name)
    return Prompt(question, (Choice("Enter", "send"), _BACK), short, entry=entry)


def mend_prompt(problem: str) -> Prompt:
    """Say what is wrong with an edit."""
    question = Span("? The arguments cannot be used as they are now:", "prompt")
    choices = (Choice("e", "edit again"), Choice("n", "do not run it"), _BACK)
    short = (Span("Edit again?", "prompt"),)
    return Prompt((question,), choices, short, (shown(problem, "bad"),))


def confirm_prompt(request: ApprovalRequested) -> Prompt:
    """Ask whether the call may run with the changes that stand above."""
    what = (shown(request.name, "tool"), Span(" with these changes?", "prompt"))
    return Prompt(
        (Span("? Run ", "prompt"), *what),
        (Choice("y", "yes", runs=True), Choice("e", "edit again"), Choice("n", "no"), _BACK),
        (Span("Run ", "prompt"), *what),
    )
