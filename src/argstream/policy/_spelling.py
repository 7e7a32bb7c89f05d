"""How else a text may be spelt if it is a path: the same file has many names.

Nobody says which arguments are paths, and a command or a URL has slashes too. So no text is changed
or refused for its spelling. It is only looked at a second time, tidied; where that makes a
difference, a condition cannot tell.
"""

import re
from typing import Final

__all__ = [
    "MOST_LEVELS",
    "ends_upwards",
    "goes_up",
    "has_separator",
    "is_name_glob",
    "levels_up",
    "other_readings",
    "readings_from_above",
    "tidied_glob",
    "tidied_prefix",
]

MOST_LEVELS: Final = 16
"""How far up a path is followed: each level is one more reading."""

_UP: Final = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)")
# White space at an end, a backslash, and the segments that say nothing, or lead up.
_UNTIDY: Final = re.compile(r"\A\s|\s\Z|\\|//|(?:\A|/)\.\.?(?:/|\Z)|/\Z")
_SEPARATORS: Final = re.compile(r"[/\\]")
_LEADING_UPS: Final = re.compile(r"(?:\.\./)+")
_NOTHING: Final = ("", ".")
_NAME_GLOB: Final = re.compile(r"(?:\*{2,}/)+((?:(?!\*\*)[^/\\])+)", re.DOTALL)
_SET: Final = re.compile(r"\[[!^]?.[^]]*\]", re.DOTALL)  # of a glob


def goes_up(text: str) -> bool:
    """Say whether a text may be a path that leaves what it seems to be in."""
    return _UP.search(text.strip()) is not None


def ends_upwards(text: str) -> bool:
    """Say whether the last name of a path is not to be seen, since it ends with ``..``."""
    names = (name for name in reversed(_SEPARATORS.split(text.strip())) if name not in _NOTHING)
    return next(names, "") == ".."


def levels_up(path: str) -> int:
    """Count how many levels a tidy path goes up before it goes down."""
    found = _LEADING_UPS.match(path)
    return 0 if found is None else found.end() // len("../")


def readings_from_above(path: str) -> tuple[str, ...]:
    """Give what a tidy path may be called that goes up and may come down again where it began.

    Nobody says where the tool runs, so each name that it may have gone up from is left out in turn.

    >>> readings_from_above("../project/.env"), readings_from_above("../a/b/c")
    (('project/.env', '.env'), ('a/b/c', 'b/c'))
    """
    levels = levels_up(path)
    if not levels:
        return ()
    names = path.split("/")[levels:]
    most = min(levels, MOST_LEVELS, len(names) - 1)
    return tuple("/".join(names[start:]) for start in range(most + 1))


def is_name_glob(glob: str) -> bool:
    """Say whether a glob is about the last name of a path alone: ``**/`` and one segment."""
    return _NAME_GLOB.fullmatch(glob) is not None


def has_separator(pattern: str) -> bool:
    """Say whether a pattern has several segments, if it is one of paths."""
    return "/" in pattern or "\\" in pattern


def other_readings(text: str) -> tuple[str, ...]:
    r"""Give a text as a tidy path would be written; nothing if it is tidy.

    There are two if its end says that it is a directory, which many tools do not care about.

    >>> other_readings("/etc//./passwd"), other_readings("a\\b/"), other_readings("a/b")
    (('/etc/passwd',), ('a/b', 'a/b/'), ())
    """
    if _UNTIDY.search(text) is None:
        return ()
    segments = text.strip().replace("\\", "/").split("/")
    is_absolute = len(segments) > 1 and not segments[0]
    kept: list[str] = []
    for segment in segments:
        if segment == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif segment == ".." and is_absolute:
            continue
        elif segment not in _NOTHING:
            kept.append(segment)
    if not kept:
        return ("/" if is_absolute else segments[0] and ".",)
    path = "/" * is_absolute + "/".join(kept)
    is_directory = len(segments) > 1 and segments[-1] in _NOTHING
    return (path, path + "/") if is_directory else (path,)


def tidied_prefix(prefix: str) -> str:
    """Give a prefix as it has to be for tidy paths.

    What it ends with stays, since more may follow. So do two slashes at its start: what begins with
    them is on another machine, and not what is meant by one.
    """
    text = prefix.replace("\\", "/")
    first, *segments = text.split("/")
    if not segments:
        return prefix
    *inner, last = segments
    head = "//" if text.startswith("//") else "" if first == "." else f"{first}/"
    return head + "".join(f"{segment}/" for segment in inner if segment not in _NOTHING) + last


def tidied_glob(glob: str) -> str:
    """Give a glob as it has to be for tidy paths; see ``tidied_prefix``."""
    return tidied_prefix(_SET.sub(lambda found: "/" if found[0] == "[\\]" else found[0], glob))
