"""Conditions on paths: ``Under``, ``Prefix`` and ``Glob``.

``Under`` looks at the file system: a path is checked by where it leads, however it is written.
``Prefix`` and ``Glob`` compare text, also text that is no path. If the text may be a path, the same
file has other names; where one of those would change the answer, it is ``Undecided``.
"""

import os
import re
import stat
import unicodedata
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Final, NamedTuple, TypeAlias

from argstream.errors import UsageError
from argstream.policy._conditions import Answer, StringCondition, Undecided
from argstream.policy._messages import listed, shown

_SPECIAL: Final = frozenset("*?[")
_SLASH: Final = "/"
_DIRECTORIES: Final = re.compile(r"(?:\*{2,}/)+")  # once more says nothing more


_MOST_LEVELS: Final = 16
"""How far up a path is followed: each level is one more reading."""

_UP: Final = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)")
# White space at an end, a backslash, and the segments that say nothing, or lead up.
_UNTIDY: Final = re.compile(r"\A\s|\s\Z|\\|//|(?:\A|/)\.\.?(?:/|\Z)|/\Z")
_SEPARATORS: Final = re.compile(r"[/\\]")
_LEADING_UPS: Final = re.compile(r"(?:\.\./)+")
_NOTHING: Final = ("", ".")
_NAME_GLOB: Final = re.compile(r"(?:\*{2,}/)+((?:(?!\*\*)[^/\\])+)", re.DOTALL)
_SET: Final = re.compile(r"\[[!^]?.[^]]*\]", re.DOTALL)  # of a glob

_LONGEST: Final = 4096  # characters, as the system call; short enough for every check here
_MOST_LINKS: Final = 40  # as Linux has it

# Text, not path objects: a path is checked as it is written.
_dirname, _expanduser, _isabs, _join = (
    os.path.dirname, os.path.expanduser, os.path.isabs, os.path.join,
)  # fmt: skip

# A drive, or the scheme of a URL. A tool may know what it means; here it is the name of a file.
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_VARIABLE: Final = re.compile(r"\$[A-Za-z_{(]")
_STRUCTURE: Final = "/\\.~:$"


class Under(StringCondition):
    """It is a path to this directory or to something below, or to one of these directories.

    The path is read as a tool would open it: ``..`` and ``.``, absolute or relative to ``base``
    (without one, to the policy's ``root``), symbolic links followed, also those of the directories
    above a file that does not exist yet. Where tools differ (``~``, backslashes, a URL, white space
    at an end …), or the file system bars the way, it cannot be told.

    Without either, nobody has said where the tool runs: a relative path must lead to the same
    answer from the directory itself and from where this process is now, or it cannot be told.

    It looks when it is asked. A link that is made afterwards leads elsewhere, so the tool has to
    open safely itself.
    """

    _base: str | None

    def __init__(
        self,
        *directories: str | os.PathLike[str],
        base: str | os.PathLike[str] | None = None,
    ) -> None:
        base = None if base is None else expanded_directory(base)
        if base is not None and not _isabs(base):
            raise UsageError(f"{shown(base)} must be an absolute directory for paths to begin at")
        expanded = map(expanded_directory, directories)
        # An empty one stays empty, for the base class to refuse.
        super().__init__(*(path and _join(base or "", path) for path in expanded))
        object.__setattr__(self, "_base", base)

    def bound(self, root: str | None) -> "Under":
        bound = Under(*self._parts, base=self._base or root)
        bound._demand_absolute()
        return bound

    def _demand_absolute(self) -> None:
        for directory in self._parts:
            if not _isabs(directory):
                raise UsageError(
                    f"under {shown(directory)}: give an absolute directory, or the policy a root"
                )

    def _test_text(self, text: str) -> Answer:
        self._demand_absolute()
        why = _oddity(text)
        if why is not None:
            return Undecided(why)
        unclear: Undecided | None = None
        for directory in self._parts:
            try:
                if self._leads_into(text, directory):
                    return True
            except UntellableError as error:
                unclear = unclear or Undecided(str(error))
        return unclear or False

    def _leads_into(self, text: str, directory: str) -> bool:
        answers = {
            _is_inside(_join(base, text), directory) for base in self._bases(text, directory)
        }
        if len(answers) > 1:
            raise UntellableError("it is relative, and the policy has no root for it to begin at")
        return answers.pop()

    def _bases(self, text: str, directory: str) -> list[str]:
        if self._base is not None:
            return [self._base]
        if _isabs(text):
            return [directory]
        try:
            return [directory, str(Path.cwd())]
        except OSError:
            raise UntellableError("it is relative, and this process is nowhere") from None

    def words(self, *, negated: bool = False) -> str:
        return f"{'is not' if negated else 'is'} under {listed(self._parts)}"

    def __repr__(self) -> str:
        base = "" if self._base is None else f", base={self._base!r}"
        return f"Under({', '.join(map(repr, self._parts))}{base})"


def expanded_directory(directory: str | os.PathLike[str]) -> str:
    """Expand ``~`` in a directory of a policy."""
    if not isinstance(directory, str | os.PathLike):
        raise UsageError(f"{shown(directory)} is no directory: give a string or a path")
    path = os.fspath(directory)
    if "\0" in path:
        raise UsageError(f"{shown(path)} is no directory: it has a NUL in it")
    expanded = _expanduser(path)
    if expanded.startswith("~"):
        raise UsageError(f"{shown(path)}: there is no such home directory")
    return expanded


def _is_inside(path: str, directory: str) -> bool:
    real_directory = _resolve(directory)
    # The system goes up from where a link leads; many tools strike out the name before "..",
    # without a look. Only where both come to the same is it known what will be opened.
    as_opened = _is_resolved_inside(_resolve(path), real_directory)
    as_written = _is_resolved_inside(_resolve(os.path.normpath(path)), real_directory)
    if as_opened is not as_written:
        raise UntellableError("it goes up through a symbolic link, which tools do differently")
    return as_opened


class UntellableError(Exception):
    """It cannot be told where a path leads. The message is a clause about ``it``."""


def _oddity(path: str) -> str | None:
    """Return why tools may read a path in different ways, or None.

    The answer is a clause about ``it``. None means: all tools that open this path open the same.
    """
    if not path:
        return "it is empty"
    if len(path) > _LONGEST:
        return f"it is longer than {_LONGEST} characters"
    if path.startswith("~"):
        return "it begins with '~', which many tools replace by a home directory"
    if path != path.strip():
        return "it begins or ends with white space"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in path):
        return "it has a control character in it"
    if _VARIABLE.search(path):
        return "it has a '$' in it, which some tools replace by a variable"
    if not path.isascii():
        plain = unicodedata.normalize("NFKC", path)
        if any(plain.count(character) != path.count(character) for character in _STRUCTURE):
            return "it has a character in it that some systems turn into a slash or a dot"
    names = re.split(r"[/\\]", path)
    if any(name.endswith((".", " ")) and name not in (".", "..") for name in names):
        return "it has a name in it that ends with a dot or a space"
    return _windows_oddity(path) if os.name == "nt" else _posix_oddity(path)


def _posix_oddity(path: str) -> str | None:
    if "\\" in path:
        return "it has a backslash in it"
    if _SCHEME.match(path):
        return "it begins like a URL or a drive"
    return None


def _windows_oddity(path: str) -> str | None:
    rest = path[2:] if _DRIVE.match(path) else path
    if ":" in rest:
        return "it has a colon in it"
    if path.startswith(("//", "\\\\", "\\/", "/\\")):
        return "it begins with two slashes"
    if "~" in path:
        return "it has a '~' in it, as a short name has"
    if "%" in path:
        return "it has a '%' in it, which some tools replace by a variable"
    return None


def _resolve(path: str) -> str:
    """Follow every symbolic link of an absolute path; what does not exist is taken by its name.

    ``..`` goes up from where a link leads, as the system does it. Raises ``UntellableError`` where
    the way is barred.
    """
    try:
        return os.path.realpath(path) if os.name == "nt" else _follow(path)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UntellableError(f"it cannot be looked up ({reason})") from None
    except ValueError:
        raise UntellableError("it is no path") from None


def _follow(path: str) -> str:
    # os.path.realpath passes over what it may not look at, and over loops: here both must be told.
    current = "/"
    names = path.split("/")[::-1]
    links = 0
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            current = _dirname(current)
            continue
        step = current.rstrip("/") + "/" + name
        try:
            is_link = stat.S_ISLNK(os.lstat(step).st_mode)
        except FileNotFoundError:
            is_link = False
        if not is_link:
            current = step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise UntellableError("it goes through too many symbolic links, maybe in a circle")
        if step.startswith("/proc/"):
            raise UntellableError("it goes through a link of /proc, which each process sees anew")
        target = str(Path(step).readlink())
        if target.startswith("/"):
            current = "/"
        names += target.split("/")[::-1]
    return current


def _is_resolved_inside(path: str, directory: str) -> bool:
    """Return True if a resolved path is a resolved directory, or below it.

    Names may differ and the directory be the same: where case or the composition of letters does
    not count, or where it is mounted twice. So what exists is compared by its identity.
    """
    if _is_below(path, directory):
        return True
    identity = _identity(directory)
    if identity is not None and any(_identity(place) == identity for place in _ancestors(path)):
        return True
    if not _is_below(_folded(path), _folded(directory)):
        return False
    depth = len(PurePath(directory).parts)
    namesake = str(PurePath(*PurePath(path).parts[:depth]))
    if identity is None or _identity(namesake) is None:
        raise UntellableError("its name differs only in case or in how letters are composed")
    return False


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _ancestors(path: str) -> Iterator[str]:
    place = PurePath(path)
    yield str(place)
    yield from map(str, place.parents)


def _identity(path: str) -> tuple[int, int] | None:
    """Identify what a path leads to, whatever its name; None if there is nothing."""
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UntellableError(f"it cannot be looked up ({reason})") from None
    return status.st_dev, status.st_ino


class _PathCondition(StringCondition):
    """The base of conditions about texts that may be paths, spelt in many ways.

    The text counts as it is written. If it is a path, the same may be written otherwise: where the
    answer would be another then, it cannot be told.
    """

    _is_tidy: bool
    _names: tuple[str, ...]
    """Those of its patterns for which the last name of a path decides, whatever is before it."""

    def _test_text(self, text: str) -> Answer:
        matches = self._matches(text)
        readings = _other_readings(text)
        if _UP.search(text.strip()) is not None:
            if self._loses_its_way(text, readings[0], matches=matches):
                return Undecided("it has a '..' in it; for directories use under")
            readings += _readings_from_above(readings[0])
        if not readings and self._is_tidy:
            return matches
        matching = next(filter(self._matches_tidily, readings or (text,)), None)
        if (matching is not None) is not matches:
            meant = matching or readings[0] if readings else None
            said = "a path that is written otherwise" if meant is None else shown(meant)
            return Undecided(f"it may also be read as {said}")
        return matches

    def _loses_its_way(self, text: str, tidy: str, *, matches: bool) -> bool:
        """Return True if ``..`` may lead to what the patterns are about, or away from it."""
        others = [pattern for pattern in self._parts if pattern not in self._names]
        if any("/" in one or "\\" in one for one in others) or (
            self._names and _ends_upwards(text)
        ):
            return True
        if others and _levels_up(tidy) > _MOST_LEVELS:
            return True
        return matches  # to allow what leads up is not what is meant

    @abstractmethod
    def _matches(self, text: str) -> bool:
        """Answer for the text as it is written."""

    @abstractmethod
    def _matches_tidily(self, text: str) -> bool:
        """Compare a tidy path with the tidied patterns."""


class Prefix(_PathCondition):
    """It begins with this, or with one of these.

    The text is taken as it is written. If as a path it may also be read in another way, and that
    makes a difference, it cannot be told: ``//etc/passwd`` where the prefix is ``/etc/``,
    ``src/../..`` where it is ``src``. For directories there is ``Under``.
    """

    _tidy: tuple[str, ...]

    def __init__(self, *prefixes: str) -> None:
        super().__init__(*prefixes)
        object.__setattr__(self, "_tidy", tuple(map(_tidied_prefix, prefixes)))
        object.__setattr__(self, "_is_tidy", self._tidy == prefixes)
        object.__setattr__(self, "_names", ())

    def _matches(self, text: str) -> bool:
        return text.startswith(self._parts)

    def _matches_tidily(self, text: str) -> bool:
        # Of "./" nothing is left: any relative path begins with it.
        return any(
            text.startswith(prefix) if prefix else not text.startswith("/") for prefix in self._tidy
        )

    def words(self, *, negated: bool = False) -> str:
        return f"{'does not begin' if negated else 'begins'} with {listed(self._parts)}"


class Glob(_PathCondition):
    """All of it matches this glob, or one of these.

    ``*`` is any run of characters without ``/``, ``**`` any run at all, ``**/`` any number of
    directories, ``?`` one character but ``/``, ``[a-z]`` one of a set, ``[!a-z]`` one that is not.
    A leading dot is nothing special; upper and lower case differ. As for ``Prefix``, it cannot be
    told of a path that may be read in another way.

    >>> Glob("**/*.env").test("config/.env"), Glob("*.env").test("config/.env")
    (True, False)
    >>> Glob("**/.env").test("config/.env/")
    Undecided(why='it may also be read as "config/.env"')
    """

    _compiled: "tuple[CompiledGlob, ...]"
    _tidy: "tuple[CompiledGlob, ...]"

    def __init__(self, *patterns: str) -> None:
        super().__init__(*patterns)
        compiled = tuple(CompiledGlob(pattern, paths=True) for pattern in patterns)
        tidied = tuple(map(_tidied_glob, patterns))
        is_tidy = tidied == patterns
        tidy = compiled if is_tidy else tuple(CompiledGlob(glob, paths=True) for glob in tidied)
        object.__setattr__(self, "_compiled", compiled)
        object.__setattr__(self, "_tidy", tidy)
        object.__setattr__(self, "_is_tidy", is_tidy)
        object.__setattr__(self, "_names", tuple(filter(_is_name_glob, patterns)))

    def _matches(self, text: str) -> bool:
        return any(glob.matches(text) for glob in self._compiled)

    def _matches_tidily(self, text: str) -> bool:
        return any(glob.matches(text) for glob in self._tidy)

    def words(self, *, negated: bool = False) -> str:
        return f"{'does not match' if negated else 'matches'} the glob {listed(self._parts)}"


def _ends_upwards(text: str) -> bool:
    names = (name for name in reversed(_SEPARATORS.split(text.strip())) if name not in _NOTHING)
    return next(names, "") == ".."


def _levels_up(path: str) -> int:
    found = _LEADING_UPS.match(path)
    return 0 if found is None else found.end() // len("../")


def _readings_from_above(path: str) -> tuple[str, ...]:
    """Return the names of a tidy path that goes up and may come down where it began.

    Nobody says where the tool runs, so each name that it may have gone up from is left out in turn.

    >>> _readings_from_above("../project/.env"), _readings_from_above("../a/b/c")
    (('project/.env', '.env'), ('a/b/c', 'b/c'))
    """
    levels = _levels_up(path)
    if not levels:
        return ()
    names = path.split("/")[levels:]
    most = min(levels, _MOST_LEVELS, len(names) - 1)
    return tuple("/".join(names[start:]) for start in range(most + 1))


def _is_name_glob(glob: str) -> bool:
    """Return True if only the last name of a path matters: ``**/`` and one segment."""
    return _NAME_GLOB.fullmatch(glob) is not None


def _other_readings(text: str) -> tuple[str, ...]:
    r"""Return a text as a tidy path would be written; nothing if it is tidy.

    There are two if its end says that it is a directory, which many tools do not care about.

    >>> _other_readings("/etc//./passwd"), _other_readings("a\\b/"), _other_readings("a/b")
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


def _tidied_prefix(prefix: str) -> str:
    """Return a prefix as it must be to compare it with tidy paths.

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


def _tidied_glob(glob: str) -> str:
    return _tidied_prefix(_SET.sub(lambda found: "/" if found[0] == "[\\]" else found[0], glob))


def is_glob(text: str) -> bool:
    return not _SPECIAL.isdisjoint(text)


class _Set(NamedTuple):
    ranges: tuple[tuple[str, str], ...]
    negated: bool


# What has to be there to come from a state to the next: this character, one of a set, any one
# (True), or nothing can be (None): the state is reached in another way.
_Step: TypeAlias = str | _Set | bool | None


class CompiledGlob:
    """A glob, ready to be compared with whole texts.

    With ``paths``, ``*``, ``?`` and a set stop at ``/``, ``**`` does not, and ``**/`` stands for
    any number of directories, none among them. Without, a slash is a character like any other.
    """

    def __init__(self, pattern: str, *, paths: bool) -> None:
        self._paths = paths
        self._steps: list[_Step] = []
        self._any = 0  # the states that stay whatever comes
        self._segment = 0  # those that stay until a slash comes
        self._entries = 0  # those in front of **/, which may also be skipped
        self._compile(pattern)
        self._end = 1 << len(self._steps)

    def matches(self, text: str) -> bool:
        moves: dict[str, tuple[int, int]] = {}
        entries, end = self._entries, self._end
        certain = self._any & end
        states = self._skip(1)
        for character in text:
            if states & certain:
                return True
            move = moves.get(character)
            if move is None:
                move = moves[character] = self._move(character)
            entered, stays = move
            states = (states << 1) & entered | states & stays
            if not states:
                return False
            if states & entries:
                states = self._skip(states)
        return bool(states & end)

    def _skip(self, states: int) -> int:
        entered = states & self._entries
        return states | entered << 1 | entered << 2

    def _move(self, character: str) -> tuple[int, int]:
        """Return the states that this character leads to, and those that it leaves as they are."""
        is_slash = self._paths and character == _SLASH
        entered = 0
        for number, step in enumerate(self._steps, 1):
            if isinstance(step, str):
                fits = step == character
            elif isinstance(step, _Set):
                inside = any(first <= character <= last for first, last in step.ranges)
                fits = inside is not step.negated and not is_slash
            else:
                fits = step is True and not is_slash
            if fits:
                entered |= 1 << number
        return entered, self._any if is_slash else self._any | self._segment

    def _compile(self, pattern: str) -> None:
        place = 0
        while place < len(pattern):
            character = pattern[place]
            if character == "*":
                place = self._stars(pattern, place)
                continue
            if character == "[":
                place, step = _set(pattern, place)
                self._steps.append(step)
                continue
            if character in "{}\\":
                raise UsageError(
                    f"the glob {pattern!r} has {character!r} in it, which globs read in different "
                    f"ways: for the character itself write [{character}], for alternatives give "
                    "several globs"
                )
            self._steps.append(True if character == "?" else character)
            place += 1

    def _stars(self, pattern: str, place: int) -> int:
        """Compile stars and the slash that belongs to them. Returns where the pattern goes on."""
        begins_segment = self._paths and (place == 0 or pattern[place - 1] == _SLASH)
        directories = _DIRECTORIES.match(pattern, place) if begins_segment else None
        if directories is not None:
            entry = 1 << len(self._steps)
            self._entries |= entry
            self._any |= entry << 1
            self._steps += (None, _SLASH)
            return directories.end()
        end = place
        while pattern[end : end + 1] == "*":
            end += 1
        if self._paths and end - place == 1:
            self._segment |= 1 << len(self._steps)
        else:
            self._any |= 1 << len(self._steps)
        return end


def _set(pattern: str, start: int) -> tuple[int, _Set]:
    """Read ``[abc]``, ``[a-z]`` or ``[!abc]``; a ``]`` may stand first."""
    place = start + 1
    negated = pattern[place : place + 1] in ("!", "^")
    place += negated
    end = pattern.find("]", place + 1)
    if end < 0:
        raise UsageError(f"the glob {pattern!r} has a '[' without its ']': write [[] for a bracket")
    ranges = []
    while place < end:
        first = last = pattern[place]
        if pattern[place + 1] == "-" and place + 2 < end:
            last = pattern[place + 2]
            place += 2
        if first > last:
            raise UsageError(f"the glob {pattern!r}: nothing lies between {first!r} and {last!r}")
        ranges.append((first, last))
        place += 1
    return end + 1, _Set(tuple(ranges), negated)
