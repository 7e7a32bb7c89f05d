"""Binds the text of a call's arguments to the parameters of its function.

The text is parsed again for each execution, unchanged (invariant 12), so the tool shares no objects
with approvers and viewers.
"""

import json
from typing import Any, Final, NamedTuple

from argstream.agent.tools._execute import Bound, failure_words
from argstream.agent.tools._signature import ToolSignature
from argstream.agent.tools._streamed import Streamed, TextFeed
from argstream.assembly import Call
from argstream.checks import LiveCall, is_settled, value_at
from argstream.errors import UsageError
from argstream.events import ArgumentsError
from argstream.jsonstream import PENDING, JsonPath, Parser
from argstream.jsonstream._fragments import KIND_WORDS, kind_of
from argstream.validation import typed


def is_as_streamed(call: Call) -> bool:
    """Return True if the arguments are what the streamed text says."""
    return call.reinterpreted in (None, "split_name")


def parsed_anew(text: str, *, is_whole: bool = True) -> Parser:
    """Parse a text once more, by the same rules as when it was streamed.

    These are not those of ``json.loads`` (invariant 4).
    """
    parser = Parser(unique_keys=True)
    parser.feed(text)
    if is_whole:
        parser.close()
    return parser


_MOST: Final = 5  # problems told at once
_LONGEST: Final = 300  # characters for one


class _Reread(NamedTuple):
    name: str
    partial: dict[str, Any]
    kind: str = "function"
    verdict: str = "complete"
    error: ArgumentsError | None = None
    path: JsonPath = ()
    in_doubt: bool = False
    in_leaves: bool = False


def problem_of(face: ToolSignature, text: str) -> str | None:
    found = _validated(face, text)
    return found if isinstance(found, str) else None


def bind(face: ToolSignature, text: str) -> Bound:
    """Validate a whole text. Raises UsageError if it does not fit: call ``problem_of`` first."""
    found = _validated(face, text)
    if isinstance(found, str):
        raise UsageError(f"{face.spec.name} cannot be called with these arguments: {found}")
    if face.streamed is None:
        return Bound(found, None)
    feed = TextFeed()
    feed.add(found[face.streamed])
    feed.finish()
    return Bound({**found, face.streamed: Streamed(feed)}, feed)


def bind_early(face: ToolSignature, call: Call, feed: TextFeed) -> Bound | None:
    """Bind all arguments but the text, which is still written; None if that is not possible yet.

    An optional argument may come later, so a call without it is bound at its end.
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
    return Bound({**arguments, face.streamed: Streamed(feed)}, feed)


def _have_come(call: LiveCall, names: list[str]) -> bool:
    """Return True if these arguments are there and final."""
    return call.verdict == "complete" or all(
        value_at(call.partial, (name,)) is not PENDING and is_settled(call, (name,))
        for name in names
    )


def _reread(call: Call) -> _Reread | None:
    """Parse again what has come: consumers have seen ``call.partial``, and may have changed it."""
    parser = parsed_anew(call.raw, is_whole=call.verdict == "complete")
    found: Any = parser.value
    if parser.error is not None or not isinstance(found, dict):
        return None
    return _Reread(
        call.name, found, verdict=call.verdict, path=parser.path, in_leaves=call.in_leaves
    )


def _validated(face: ToolSignature, text: str) -> dict[str, Any] | str:
    from pydantic import ValidationError

    parsed = _parsed(text)
    if isinstance(parsed, str):
        return parsed
    unknown = [] if face.takes_more else [name for name in parsed if name not in face.names]
    if unknown:
        known = ", ".join(face.names) or "none"
        return f"unknown argument {_short(repr(unknown[0]))}. Arguments: {known}"
    try:
        found: dict[str, Any] = typed(face.spec, _Reread(face.spec.name, parsed)).value()
    except ValidationError as error:
        return _problems(error)
    except Exception as error:  # noqa: BLE001 - a validator failed: the arguments may be invalid
        return f"the validator failed: {_short(failure_words(error))}"
    return found


def _parsed(text: str) -> dict[str, Any] | str:
    """Parse the text. A call without any text has no arguments."""
    if not text.strip():
        return {}
    parser = parsed_anew(text)
    if parser.error is not None:
        return f"the arguments are not valid JSON: {parser.error.message}"
    found: Any = parser.value
    if not isinstance(found, dict):
        return f"the arguments must be a JSON object, not {KIND_WORDS[kind_of(found) or 'null']}"
    try:
        json.dumps(found, allow_nan=False)
    except ValueError:
        return "a number in the arguments is too large for a float"
    return found


def _problems(error: Any) -> str:
    """Return what pydantic found, worded for a model."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [_short(f"{_place(one['loc'])}: {one['msg']}") for one in found[:_MOST]]
    more = len(found) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _place(path: tuple[str | int, ...]) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return steps.removeprefix(".") or "the arguments"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
