"""What a mock model answers, in words that belong to no provider.

::

    Reply(
        Think("The file is small."),
        Say("I write it."),
        CallTool("write_file", {"path": "a.txt", "content": "hello"}),
    )

The same as a file, for ``argstream mock``::

    {"replies": [
        {"parts": [
            {"think": "The file is small."},
            {"say": "I write it."},
            {"call": "write_file", "arguments": {"path": "a.txt", "content": "hello"}}
        ], "stop": "tool_calls", "faults": ["cut=500"]}
    ]}
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from argstream.errors import UsageError
from argstream.models._scripted import CallTool, Part, Say, Stop, Think
from argstream.models._scripted import Reply as ScriptedReply

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
    """Parse a fault as it is written in a script file or on the command line.

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
    """Return the forms of all faults, as they are written on the command line."""
    return ", ".join(form for forms, _ in _FORMS.values() for form in forms)


def checked_faults(faults: object) -> tuple[Fault, ...]:
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


@dataclass(frozen=True, init=False)
class Reply(ScriptedReply):
    """One answer of the model: its parts in order, why it stopped, and what goes wrong.

    A string is something to say. If ``stop`` is not given, it is ``tool_calls`` for an answer that
    calls a tool and ``end_turn`` for any other.

    >>> Reply("Hello").stop, Reply(CallTool("now")).stop
    ('end_turn', 'tool_calls')
    """

    faults: tuple[Fault, ...]

    def __init__(
        self,
        *parts: Part | str,
        stop: Stop | None = None,
        faults: Iterable[Fault] = (),
        piece_size: int = 4,
    ) -> None:
        super().__init__(*parts, stop=stop, piece_size=piece_size)
        object.__setattr__(self, "faults", checked_faults(faults))

    @classmethod
    def of(cls, reply: ScriptedReply) -> "Reply":
        """Return a reply that was made for a ``ScriptedModel``, which makes no faults."""
        if isinstance(reply, cls):
            return reply
        return cls(*reply.parts, stop=reply.stop, piece_size=reply.piece_size)


def parse_script(text: str | bytes) -> list[Reply]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the script is not JSON: {error}") from None
    match document:
        case {"replies": [_, *_] as replies, **others} if not others:
            return [_reply(reply, f"reply {n}") for n, reply in enumerate(replies, 1)]
        case _:
            raise UsageError(
                'a script is an object with nothing but "replies", a list of one or more'
            )


def _reply(reply: object, where: str) -> Reply:
    match reply:
        case {"parts": [*parts], **others} if others.keys() <= {"stop", "faults", "piece_size"}:
            options: dict[str, Any] = {str(name): value for name, value in others.items()}
            if not isinstance(options.get("piece_size", 1), int):
                raise UsageError(f'{where}: "piece_size" is a number')
            read = [_part(part, f"{where}, part {n}") for n, part in enumerate(parts, 1)]
            faults = options.pop("faults", [])
            if not isinstance(faults, list) or not all(isinstance(text, str) for text in faults):
                raise UsageError(f'{where}: "faults" is a list of texts such as "cut=500"')
            try:
                return Reply(*read, faults=map(parse_fault, faults), **options)
            except UsageError as error:
                raise UsageError(f"{where}: {error}") from None
        case _:
            raise UsageError(
                f'{where}: a reply is an object with "parts", a list, and maybe "stop", "faults" '
                'and "piece_size"'
            )


def _part(part: object, where: str) -> Part:
    match part:
        case {"say": str(text), **others} if not others:
            return Say(text)
        case {"think": str(text), **others} if not others:
            return Think(text)
        case {"call": str(name), **others} if others.keys() <= {"arguments", "id"}:
            arguments = others.get("arguments", {})
            call_id = others.get("id")
            if isinstance(arguments, dict | str) and isinstance(call_id, str | None):
                return CallTool(name, arguments, call_id=call_id)
        case _:
            pass
    raise UsageError(
        f'{where}: a part is {{"say": text}}, {{"think": text}} or {{"call": name, "arguments": '
        'an object, or a text that may be no JSON}, maybe with "id"'
    )


EXAMPLE: Final = (
    Reply(
        Think("They want a program. Primes are small enough to write at once."),
        Say("I write the file now."),
        CallTool(
            "write_file",
            {
                "path": "src/primes.py",
                "content": "def primes(limit):\n"
                '    """Yield the primes below a limit."""\n'
                "    composite = set()\n"
                "    for n in range(2, limit):\n"
                "        if n not in composite:\n"
                "            yield n\n"
                "            composite.update(range(n * n, limit, n))\n",
            },
        ),
    ),
    Reply("Done: src/primes.py yields the primes below a limit – 2, 3, 5 and so on."),
)
"""Two turns of an agent that writes a file: what ``argstream mock`` plays if given no script."""
