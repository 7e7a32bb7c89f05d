"""Scripts and faults of the mock provider, as files and on the command line.

A script is a list of replies::

    {"replies": [
        {"parts": [
            {"think": "The file is small."},
            {"say": "I write it."},
            {"call": "write_file", "arguments": {"path": "a.txt", "content": "hello"}}
        ], "stop": "tool_calls", "faults": ["cut=500"]}
    ]}
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from argstream.errors import UsageError
from argstream.models._scripted import (
    CallTool,
    Cut,
    ErrorEvent,
    Fault,
    Malformed,
    Part,
    Place,
    Reply,
    Say,
    Slow,
    Split,
    Status,
    Think,
)


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
