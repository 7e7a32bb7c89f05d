"""How amounts, times and places are said: as short as they can be and still tell something."""

import re
from typing import Final

from argstream.events import Usage
from argstream.jsonstream import JsonPath
from argstream.sanitise import visible_line

__all__ = ["count", "duration", "path_name", "quoted", "size", "token_counts"]

_is_plain_name: Final = re.compile(r"[\w-]+").fullmatch


def count(number: int, thing: str) -> str:
    """Say how many there are.

    >>> count(1, "call"), count(3, "call")
    ('1 call', '3 calls')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def size(number: int) -> str:
    """Say how many bytes these are.

    >>> size(312), size(48_250), size(250_000_000)
    ('312 B', '48.2 kB', '250.0 MB')
    """
    if number < 1000:
        return f"{number} B"
    return f"{number / 1e3:.1f} kB" if number < 999_950 else f"{number / 1e6:.1f} MB"


def token_counts(usage: Usage) -> str:
    """Return the input and output tokens as text, without counts that are unknown.

    >>> token_counts(Usage(7, 5)), token_counts(Usage(output_tokens=5)), token_counts(Usage())
    ('7 tokens in, 5 out', '5 tokens out', '')
    """
    read, written = usage.input_tokens, usage.output_tokens
    if read is None:
        return "" if written is None else f"{written} tokens out"
    return f"{read} tokens in" + ("" if written is None else f", {written} out")


def duration(seconds: float) -> str:
    """Say how long something takes.

    >>> [duration(seconds) for seconds in (0, 0.0004, 0.0312, 0.5, 59.97, 75, 4000, 200_000)]
    ['0 ms', '0.4 ms', '31 ms', '0.5 s', '1 min 0 s', '1 min 15 s', '1 h 6 min', '2 d 7 h']
    """
    seconds = max(seconds, 0)
    if seconds < 0.0995:
        milliseconds = seconds * 1000
        return f"{milliseconds:.1f} ms" if 0.05 <= milliseconds < 0.95 else f"{milliseconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def path_name(path: JsonPath) -> str:
    """Spell a path, made visible; a name that could be misread is quoted.

    >>> path_name(("edits", 2, "old")), path_name(("a.b", "c"))
    ('edits[2].old', '["a.b"].c')
    """
    steps = (
        f".{step}"
        if isinstance(step, str) and _is_plain_name(step)
        else f"[{quoted(step) if isinstance(step, str) else step}]"
        for step in path
    )
    return visible_line("".join(steps).removeprefix("."))


def quoted(text: str) -> str:
    r"""Put a text into quotes. What cannot be seen is left to ``shown``, which knows more of it.

    >>> print(quoted('say "yes"'))
    "say \"yes\""
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
