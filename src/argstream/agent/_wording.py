"""What an agent says: to a model of calls that were not run, to a person of runs that ended."""

from collections.abc import Sequence
from typing import Final

from argstream.adapters import StopKind
from argstream.events import ToolArgsInvalid

__all__ = [
    "INTERRUPTED",
    "LOST_TURN",
    "NOT_RUN",
    "denied_words",
    "edited_note",
    "invalid_words",
    "lost_turn_note",
    "max_turns_words",
]

NOT_RUN: Final[dict[StopKind, str]] = {
    "refused": "the answer was refused",
    "malformed": "the provider says that the answer was malformed; try again",
    "stopped": "the provider stopped the answer",
    "unknown": "the provider did not say that the answer was finished",
}

INTERRUPTED: Final = (
    "the call was interrupted: the program ended while it ran. It is not known what it has done; it"
    " was not run again"
)
LOST_TURN: Final = "the program ended before the model's answer was complete, so it is asked again"


def lost_turn_note(names: Sequence[str]) -> str:
    """Tell a model that its answer was lost, and which tools had begun while it was written."""
    return (
        "[Your last answer was cut off before it was complete, and is lost. While you wrote it, "
        f"these tools had begun to work: {', '.join(names)}. It is not known what they have done; "
        "look before you call them again.]"
    )


def invalid_words(event: ToolArgsInvalid) -> str:
    """Tell a model why a call cannot be run, and what it can do."""
    error = event.error
    place = "" if error.offset is None else f", at character {error.offset}"
    hint = {
        "truncated": "; its arguments must be written shorter, or in several calls",
        "malformed": "; arguments must be a JSON object",
    }.get(event.verdict, "")
    return f"its arguments are {event.verdict}: {error.message}{place}{hint}"


def denied_words(reason: str) -> str:
    """Tell a model that somebody is against a call, or nobody could be asked."""
    return f"it was denied{f': {reason}' if reason else ''}"


def edited_note(text: str) -> str:
    """Tell a model that a person has changed its arguments."""
    return (
        f"A person changed the arguments of this call before approving it. It was run with: {text}"
    )


def max_turns_words(turns: int) -> str:
    """Tell a person that a limit was reached."""
    return (
        f"the model took {turns} turns and wants another: raise max_turns, or give the conversation"
        " another prompt to go on"
    )
