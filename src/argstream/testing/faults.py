"""What can go wrong on the way from a model: faults that ``MockProvider`` makes on request.

They can be combined. ``Status`` takes the place of the answer; of the others, those that change
events come first, then the cutting of bytes, then time.

Where a place is asked for, ``"call"`` is the middle of what the answer has of tool arguments, or of
the whole answer if it calls no tool.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from argstream.errors import UsageError

__all__ = [
    "Cut",
    "ErrorEvent",
    "Fault",
    "Malformed",
    "Place",
    "Slow",
    "Split",
    "Status",
    "checked_faults",
    "known_faults",
    "parse_fault",
]

Place: TypeAlias = int | Literal["call"]


@dataclass(frozen=True)
class Cut:
    """The connection is closed after so many bytes of the body, without an orderly end."""

    at: Place = "call"

    def __post_init__(self) -> None:
        _check_place("Cut", self.at)


@dataclass(frozen=True)
class ErrorEvent:
    """After so many events comes an error event, in the form of the API, and nothing more.

    An answer that is not streamed has no events: it becomes an error of this status.
    """

    at: Place = "call"
    status: int = 529
    message: str = ""

    def __post_init__(self) -> None:
        _check_place("ErrorEvent", self.at)
        _check_status("ErrorEvent", self.status)


@dataclass(frozen=True)
class Malformed:
    """The payload that comes after so many events is half of itself, so it is no JSON."""

    at: Place = "call"

    def __post_init__(self) -> None:
        _check_place("Malformed", self.at)


@dataclass(frozen=True)
class Status:
    """An error status instead of an answer, with the error's body in the form of the API."""

    status: int
    message: str = ""
    retry_after: float | None = None
    """Seconds, for the header ``retry-after``; a 429 says 1 unless told otherwise."""

    def __post_init__(self) -> None:
        _check_status("Status", self.status)
        if self.retry_after is not None:
            _check_seconds("Status", self.retry_after)


@dataclass(frozen=True)
class Slow:
    """Seconds between two events, before the first byte, or for all events together."""

    between: float = 0.0
    before: float = 0.0
    total: float | None = None
    """If given, the events are spread evenly over this time, and ``between`` is not used."""

    def __post_init__(self) -> None:
        for seconds in (self.between, self.before, self.total or 0.0):
            _check_seconds("Slow", seconds)


@dataclass(frozen=True)
class Split:
    """The bytes are written in pieces of these sizes, over and over, wherever that cuts them.

    With a seed the sizes are random, from 1 to the largest of ``sizes``.
    """

    sizes: tuple[int, ...] = (1,)
    seed: int | None = None

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise UsageError(f"Split: give sizes of 1 or more, not {self.sizes}")


Fault: TypeAlias = Cut | ErrorEvent | Malformed | Status | Slow | Split


def parse_fault(text: str) -> Fault:
    """Read a fault as it is written in a script file or on the command line.

    >>> parse_fault("cut=500")
    Cut(at=500)
    >>> parse_fault("split=random:7")
    Split(sizes=(64,), seed=7)
    """
    name, _, value = text.partition("=")
    if name not in _FORMS:
        raise UsageError(f"no fault is called {name!r}; there are: {known_faults()}")
    forms, make = _FORMS[name]
    try:
        return make(value)
    except UsageError:
        raise
    except ValueError:
        raise UsageError(f"cannot read the fault {text!r}; write {' or '.join(forms)}") from None


def _place(value: str) -> Place:
    return "call" if value in ("", "call") else int(value)


def _split(value: str) -> Split:
    if value.startswith("random"):
        _, _, seed = value.partition(":")
        return Split((64,), int(seed or "0"))
    return Split((int(value or "1"),))


_FORMS: Final[dict[str, tuple[Sequence[str], Callable[[str], Fault]]]] = {
    "cut": (["cut=BYTES", "cut=call"], lambda value: Cut(_place(value))),
    "error": (["error=EVENTS", "error=call"], lambda value: ErrorEvent(_place(value))),
    "malformed": (["malformed=EVENTS", "malformed=call"], lambda value: Malformed(_place(value))),
    "status": (["status=429"], lambda value: Status(int(value))),
    "slow": (["slow=SECONDS"], lambda value: Slow(between=float(value))),
    "wait": (["wait=SECONDS"], lambda value: Slow(before=float(value))),
    "total": (["total=SECONDS"], lambda value: Slow(total=float(value))),
    "split": (["split=SIZE", "split=random:SEED"], _split),
}


def known_faults() -> str:
    """Give the forms of all faults, as they are written on the command line."""
    return ", ".join(form for forms, _ in _FORMS.values() for form in forms)


def checked_faults(faults: object) -> tuple[Fault, ...]:
    """Give the faults, if that is what they are."""
    found = tuple(faults) if isinstance(faults, Iterable) else ()
    if not isinstance(faults, Iterable) or not all(isinstance(fault, Fault) for fault in found):
        raise UsageError(f"faults is a list of faults, such as [Cut(at=500)], not {faults!r}")
    return found


def _check_place(name: str, place: Place) -> None:
    if place != "call" and (type(place) is not int or place < 0):
        raise UsageError(f'{name}: say where as a number from 0, or "call", not {place}')


def _check_status(name: str, status: int) -> None:
    if not 400 <= status <= 599:
        raise UsageError(f"{name}: an error has a status from 400 to 599, not {status}")


def _check_seconds(name: str, seconds: float) -> None:
    if not 0 <= seconds < 1_000_000:
        raise UsageError(f"{name}: give seconds from 0, not {seconds}")
