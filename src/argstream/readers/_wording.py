"""What a reader says when it has nothing to give: what was asked, why not, and what did come."""

from reprlib import Repr
from typing import Any, Final

from argstream.errors import ArgumentUnavailable
from argstream.jsonstream import PENDING, JsonPath, kinds
from argstream.readers._progress import CallProgress
from argstream.settled import value_at, verdict_words

__all__ = ["differs", "incomplete", "kind_of", "unavailable", "wrong_kind"]

_MOST: Final = 20  # keys to name: a message is for people

_short = Repr()
_short.maxstring = 80


def unavailable(progress: CallProgress, path: JsonPath) -> BaseException:
    """Say that the value at this path will not come, or not to its end."""
    if (failure := progress.failure) is not None:
        return failure
    call = progress.call
    place, value, is_whole_path = _nearest(call.partial, path)
    asked = f"{_spelt(path)} of {_name(progress)}"
    if is_whole_path:
        return _error(progress, path, f"{asked} is not whole: {verdict_words(call)}")
    came = _contents(place, value)
    if progress.is_over and call.verdict != "complete":
        return _error(progress, path, f"{asked} did not come: {verdict_words(call)}; {came}")
    return _error(progress, path, f"{asked} did not come: {came}")


def incomplete(progress: CallProgress) -> BaseException:
    """Say that the call as a whole is not complete."""
    if (failure := progress.failure) is not None:
        return failure
    came = _contents((), progress.call.partial)
    why = verdict_words(progress.call)
    message = f"the arguments of {_name(progress)} are not complete: {why}; {came}"
    return _error(progress, (), message)


def wrong_kind(progress: CallProgress, path: JsonPath, value: object, wanted: str) -> Exception:
    """Say that a value is there, but is not what the reader can read."""
    message = f"{_spelt(path)} of {_name(progress)} is {kind_of(value)}, not {wanted}"
    return _error(progress, path, message)


def differs(progress: CallProgress, path: JsonPath) -> Exception:
    """Say that what was read before is not what the call turned out to have."""
    asked = f"{_spelt(path)} of {_name(progress)}" if path else f"the text of {_name(progress)}"
    reason = progress.call.reinterpreted
    message = (
        f"{asked} is not what was read while it came: the call was reinterpreted at its end "
        f"({reason}); arguments() has what holds"
    )
    return _error(progress, path, message)


def kind_of(value: object) -> str:
    """Say of which kind of JSON a value is."""
    kind = kinds.kind_of(value)
    return "nothing" if kind is None else kinds.KIND_WORDS[kind]


def _error(progress: CallProgress, path: JsonPath, message: str) -> ArgumentUnavailable:
    return ArgumentUnavailable(
        message, path=path, verdict=progress.call.verdict, error=progress.error
    )


def _nearest(root: Any, path: JsonPath) -> tuple[JsonPath, Any, bool]:
    """Follow a path as far as there are values: where that is, what is there, whether it is all."""
    for depth in range(len(path)):
        value = value_at(root, path[depth : depth + 1])
        if value is PENDING:
            return path[:depth], root, False
        root = value
    return path, root, True


def _contents(place: JsonPath, value: Any) -> str:
    whose = f"{_spelt(place)} " if place else "it "
    if isinstance(value, dict):
        return f"{whose}has {_keys(value)}"
    if isinstance(value, list):
        return f"{whose}has {len(value)} item{'' if len(value) == 1 else 's'}"
    return f"{whose}is {kind_of(value)}" if place else "nothing came"


def _keys(found: dict[str, Any]) -> str:
    if not found:
        return "nothing in it"
    shown = [_short.repr(key) for key, _ in zip(found, range(_MOST), strict=False)]
    more = len(found) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _spelt(path: JsonPath) -> str:
    return ", ".join(map(_short.repr, path))


def _name(progress: CallProgress) -> str:
    return _short.repr(progress.call.name)
