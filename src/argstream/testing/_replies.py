"""Replies and faults of the mock provider, independent of any API.

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
    """Close the connection after ``at`` bytes of the body, without a proper end."""

    at: Place = "call"

    def __post_init__(self) -> None:
        _check_place("Cut", self.at)


@dataclass(frozen=True)
class ErrorEvent:
    """Send an error event after ``at`` events, in the format of the API, and nothing more.

    A response that is not streamed becomes an error with this status.
    """

    at: Place = "call"
    status: int = 529
    message: str = ""

    def __post_init__(self) -> None:
        _check_place("ErrorEvent", self.at)
        _check_status("ErrorEvent", self.status)


@dataclass(frozen=True)
class Malformed:
    """Truncate the payload of the event after ``at`` events, so that it is not JSON."""

    at: Place = "call"

    def __post_init__(self) -> None:
        _check_place("Malformed", self.at)


@dataclass(frozen=True)
class Status:
    """Send an error status, with a body in the format of the API."""

    status: int
    message: str = ""
    retry_after: float | None = None
    """Seconds for the header ``retry-after``. The default is 1 for status 429."""

    def __post_init__(self) -> None:
        _check_status("Status", self.status)
        if self.retry_after is not None:
            _check_seconds("Status", self.retry_after)


@dataclass(frozen=True)
class Slow:
    """Wait between events, before the first byte, or for all events together, in seconds."""

    between: float = 0.0
    before: float = 0.0
    total: float | None = None
    """If set, the events are spread evenly over this time, and ``between`` is ignored."""

    def __post_init__(self) -> None:
        for seconds in (self.between, self.before, self.total or 0.0):
            _check_seconds("Slow", seconds)


@dataclass(frozen=True)
class Split:
    """Write the bytes in chunks of these sizes, repeated.

    With a seed, the sizes are random, from 1 to the largest of ``sizes``.
    """

    sizes: tuple[int, ...] = (1,)
    seed: int | None = None

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise UsageError(f"Split: sizes must be at least 1, not {self.sizes}")


Fault: TypeAlias = Cut | ErrorEvent | Malformed | Status | Slow | Split


def parse_fault(text: str) -> Fault:
    """Parse a fault of a script file or the command line.

    >>> parse_fault("cut=500")
    Cut(at=500)
    >>> parse_fault("split=random:7")
    Split(sizes=(64,), seed=7)
    """
    name, _, value = text.partition("=")
    if name not in _FORMS:
        raise UsageError(f"unknown fault {name!r}. Faults: {known_faults()}")
    forms, make = _FORMS[name]
    try:
        return make(value)
    except UsageError:
        raise
    except ValueError:
        raise UsageError(f"invalid fault {text!r}. Write {' or '.join(forms)}") from None


def _parse_place(value: str) -> Place:
    return "call" if value in ("", "call") else int(value)


def _parse_split(value: str) -> Split:
    if value.startswith("random"):
        _, _, seed = value.partition(":")
        return Split((64,), int(seed or "0"))
    return Split((int(value or "1"),))


_FORMS: Final[dict[str, tuple[Sequence[str], Callable[[str], Fault]]]] = {
    "cut": (["cut=BYTES", "cut=call"], lambda value: Cut(_parse_place(value))),
    "error": (["error=EVENTS", "error=call"], lambda value: ErrorEvent(_parse_place(value))),
    "malformed": (
        ["malformed=EVENTS", "malformed=call"],
        lambda value: Malformed(_parse_place(value)),
    ),
    "status": (["status=429"], lambda value: Status(int(value))),
    "slow": (["slow=SECONDS"], lambda value: Slow(between=float(value))),
    "wait": (["wait=SECONDS"], lambda value: Slow(before=float(value))),
    "total": (["total=SECONDS"], lambda value: Slow(total=float(value))),
    "split": (["split=SIZE", "split=random:SEED"], _parse_split),
}


def known_faults() -> str:
    return ", ".join(form for forms, _ in _FORMS.values() for form in forms)


def checked_faults(faults: object) -> tuple[Fault, ...]:
    found = tuple(faults) if isinstance(faults, Iterable) else ()
    if not isinstance(faults, Iterable) or not all(isinstance(fault, Fault) for fault in found):
        raise UsageError(f"faults must be a list such as [Cut(at=500)], not {faults!r}")
    return found


def _check_place(name: str, place: Place) -> None:
    if place != "call" and (type(place) is not int or place < 0):
        raise UsageError(f'{name}: at must be an int of at least 0 or "call", not {place}')


def _check_status(name: str, status: int) -> None:
    if not 400 <= status <= 599:
        raise UsageError(f"{name}: status must be from 400 to 599, not {status}")


def _check_seconds(name: str, seconds: float) -> None:
    if not 0 <= seconds < 1_000_000:
        raise UsageError(f"{name}: seconds must be at least 0 and below 1000000, not {seconds}")


@dataclass(frozen=True, init=False)
class Reply(ScriptedReply):
    """One answer of the model: its parts in order, why it stopped, and its faults.

    A str is short for ``Say``. The default of ``stop`` is ``tool_calls`` if the reply calls a tool,
    otherwise ``end_turn``.

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
        """Convert a reply for a ``ScriptedModel``, which has no faults."""
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
            return [_parse_reply(reply, f"reply {n}") for n, reply in enumerate(replies, 1)]
        case _:
            raise UsageError(
                'a script must be an object with only "replies", a list that is not empty'
            )


def _parse_reply(reply: object, where: str) -> Reply:
    match reply:
        case {"parts": [*parts], **others} if others.keys() <= {"stop", "faults", "piece_size"}:
            options: dict[str, Any] = {str(name): value for name, value in others.items()}
            if not isinstance(options.get("piece_size", 1), int):
                raise UsageError(f'{where}: "piece_size" must be an integer')
            read = [_parse_part(part, f"{where}, part {n}") for n, part in enumerate(parts, 1)]
            faults = options.pop("faults", [])
            if not isinstance(faults, list) or not all(isinstance(text, str) for text in faults):
                raise UsageError(f'{where}: "faults" must be a list of strings such as "cut=500"')
            try:
                return Reply(*read, faults=map(parse_fault, faults), **options)
            except UsageError as error:
                raise UsageError(f"{where}: {error}") from None
        case _:
            raise UsageError(
                f'{where}: a reply must be an object with a list "parts", and optionally "stop", '
                '"faults" and "piece_size"'
            )


def _parse_part(part: object, where: str) -> Part:
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
        f'{where}: a part must be {{"say": text}}, {{"think": text}} or {{"call": name, '
        '"arguments": object or text}, optionally with "id"'
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
"""The default script of ``argstream mock``: two turns of an agent that writes a file."""
