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
        ], "stop": "tool_use", "faults": ["cut=500"]}
    ]}
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from argstream.clients.script import CallTool, Part, Say, Stop, Think
from argstream.clients.script import Reply as ScriptedReply
from argstream.errors import UsageError
from argstream.testing.faults import Fault, checked_faults, parse_fault

__all__ = ["EXAMPLE", "CallTool", "Part", "Reply", "Say", "Stop", "Think", "parse_script"]


@dataclass(frozen=True, init=False)
class Reply(ScriptedReply):
    """One answer of the model: its parts in order, why it stopped, and what goes wrong.

    A string is something to say. If ``stop`` is not given, it is ``tool_use`` for an answer that
    calls a tool and ``end_turn`` for any other.

    >>> Reply("Hello").stop, Reply(CallTool("now")).stop
    ('end_turn', 'tool_use')
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
        """Take a reply that was made for a ``ScriptedModel``, which makes no faults."""
        if isinstance(reply, cls):
            return reply
        return cls(*reply.parts, stop=reply.stop, piece_size=reply.piece_size)


def parse_script(text: str | bytes) -> list[Reply]:
    """Read a script file."""
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
