"""From the text of a call's arguments to what its function is called with.

The text is parsed anew each time, exactly as it stands (invariant 12): what is run shares nothing
with what was shown or approved.
"""

import json
from typing import Any, Final, NamedTuple

from argstream.agent.tools._outcomes import failure_words
from argstream.agent.tools._signature import Face
from argstream.agent.tools._texts import is_as_streamed, parsed_anew
from argstream.agent.tools.streamed import Streamed, TextFeed
from argstream.assembly import Call
from argstream.errors import UsageError
from argstream.events import ArgumentsError
from argstream.jsonstream import PENDING, JsonPath
from argstream.settled import LiveCall, is_settled, value_at
from argstream.validation import typed

__all__ = ["Bound", "bind", "bind_early", "problem_of"]

_MOST: Final = 5  # problems told at once
_LONGEST: Final = 300  # characters for one


class Bound:
    """What a function will be called with. It is good for one execution."""

    def __init__(self, arguments: dict[str, Any], text: str | None, feed: TextFeed | None) -> None:
        self.arguments = arguments
        """By the names of the parameters, validated; without the context."""
        self.text = text
        """The JSON text that they were made of; None if that is still being written."""
        self.feed = feed
        """What writes its ``Streamed`` text, if it has one."""
        self._is_used = False

    def use(self) -> dict[str, Any]:
        """Give the arguments away, once: whoever had them may have changed them."""
        if self._is_used:
            raise UsageError("what was bound has been executed: bind the text anew")
        self._is_used = True
        return self.arguments

    def __repr__(self) -> str:
        return f"<Bound arguments: {', '.join(self.arguments) or 'none'}>"


class _Reread(NamedTuple):
    """Arguments that were parsed anew, as a call to look at."""

    name: str
    partial: dict[str, Any]
    kind: str = "function"
    verdict: str = "complete"
    error: ArgumentsError | None = None
    path: JsonPath = ()
    in_doubt: bool = False
    in_leaves: bool = False


def problem_of(face: Face, text: str) -> str | None:
    """Say why these arguments do not fit the function; None if they do."""
    found = _validated(face, text)
    return found if isinstance(found, str) else None


def bind(face: Face, text: str) -> Bound:
    """Validate a whole text. Raises UsageError if it does not fit: ``problem_of`` says so first."""
    found = _validated(face, text)
    if isinstance(found, str):
        raise UsageError(f"{face.spec.name} cannot be called with this: {found}")
    if face.streamed is None:
        return Bound(found, text, None)
    feed = TextFeed()
    feed.add(found[face.streamed])
    feed.finish()
    return Bound({**found, face.streamed: Streamed(feed)}, text, feed)


def bind_early(face: Face, call: Call, feed: TextFeed) -> Bound | None:
    """Take the arguments of a call whose text is still written, all but that text.

    None: not yet. An argument that may be left out and has not come may come yet: whoever waits for
    one waits for the end of the call.
    """
    if face.streamed is None or call.verdict not in ("open", "complete"):
        return None
    if call.in_doubt or not is_as_streamed(call):
        return None  # what the tool would be given is not what the text says
    others = [name for name in face.names if name != face.streamed]
    if not _have_come(call, others):
        return None
    read = _reread(call)
    if read is None or not _have_come(read, others):
        return None
    view = typed(face.spec, read)
    if not all(name in view for name in others):
        return None
    arguments = {name: view.get(name) for name in others}
    return Bound({**arguments, face.streamed: Streamed(feed)}, None, feed)


def _have_come(call: LiveCall, names: list[str]) -> bool:
    """Say whether these arguments are there and final."""
    return call.verdict == "complete" or all(
        value_at(call.partial, (name,)) is not PENDING and is_settled(call, (name,))
        for name in names
    )


def _reread(call: Call) -> _Reread | None:
    """Parse anew what has come: others have seen ``call.partial``, and may have changed it."""
    parser = parsed_anew(call.raw, is_whole=call.verdict == "complete")
    found: Any = parser.value
    if parser.error is not None or not isinstance(found, dict):
        return None
    return _Reread(
        call.name, found, verdict=call.verdict, path=parser.path, in_leaves=call.in_leaves
    )


def _validated(face: Face, text: str) -> dict[str, Any] | str:
    """Give the arguments, or say what is wrong with them."""
    from pydantic import ValidationError  # noqa: PLC0415 - an extra

    parsed = _parsed(text)
    if isinstance(parsed, str):
        return parsed
    unknown = [] if face.takes_more else [name for name in parsed if name not in face.names]
    if unknown:
        known = ", ".join(face.names) or "none"
        return f"there is no argument {_short(repr(unknown[0]))}; it takes: {known}"
    try:
        found: dict[str, Any] = typed(face.spec, _Reread(face.spec.name, parsed)).value()
    except ValidationError as error:
        return _problems(error)
    except Exception as error:  # noqa: BLE001 - a validator fell over: nobody knows if it is valid
        return f"the arguments could not be checked: {_short(failure_words(error))}"
    return found


def _parsed(text: str) -> dict[str, Any] | str:
    """Parse the text; a call without any text has no arguments."""
    if not text.strip():
        return {}
    parser = parsed_anew(text)
    if parser.error is not None:
        return f"the arguments are no valid JSON: {parser.error.message}"
    found: Any = parser.value
    if not isinstance(found, dict):
        return "the arguments must be a JSON object"
    try:
        json.dumps(found, allow_nan=False)
    except ValueError:
        return "a number in the arguments is too large"
    return found


def _problems(error: Any) -> str:
    """Say what pydantic found, in words for a model."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [_short(f"{_place(one['loc'])}: {one['msg']}") for one in found[:_MOST]]
    more = len(found) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _place(path: tuple[str | int, ...]) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return steps.removeprefix(".") or "the arguments"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
