"""Conditions on paths: ``Under``, ``Prefix`` and ``Glob``.

``Under`` resolves a path in the file system. ``Prefix`` and ``Glob`` compare any text. If the text
may be a path, and another spelling of that path would change the answer, it is ``Undecided``.
"""

import fnmatch
import os
import posixpath
import re
import stat
import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Final, TypeAlias

from argstream.errors import UsageError
from argstream.policy._conditions import Answer, StringCondition, Undecided, shown

_SPECIAL: Final = frozenset("*?[")
_MAX_LEVELS: Final = 16  # of "..": each level adds one possible path
_UP: Final = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)")
_ENDS_WITH_UP: Final = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]\.?)*$")
# White space at an end, a backslash, and the segments "", "." and "..".
_NOT_NORMALIZED: Final = re.compile(r"\A\s|\s\Z|\\|//|(?:\A|/)\.\.?(?:/|\Z)|/\Z")
_NAME_GLOB: Final = re.compile(r"(?:\*\*/)+((?:(?!\*\*)[^/\\])+)", re.DOTALL)
_TOKENS: Final = re.compile(r"\[[!^]?+.[^]]*\]|\*+|.", re.DOTALL)  # of a glob
_SET_MEMBERS: Final = re.compile(r"(.)-(.)|.", re.DOTALL)

_MAX_CHARS: Final = 4096  # PATH_MAX of Linux
_MAX_LINKS: Final = 40  # the limit of Linux
# Functions on text: a Path object would normalize the path.
_dirname, _expanduser, _isabs, _join = (
    os.path.dirname, os.path.expanduser, os.path.isabs, os.path.join,
)  # fmt: skip

# A drive, or the scheme of a URL. Tools may interpret it; for the system it is a file name.
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_VARIABLE: Final = re.compile(r"\$[A-Za-z_{(]")
_STRUCTURE: Final = "/\\.~:$"


class Under(StringCondition):
    """The value is a path to one of these directories, or below one.

    The path is resolved as a tool would open it: relative paths start at ``base`` (or the policy's
    ``root``), and symbolic links are followed, also in the parents of a missing file. The answer is
    undecided if tools may differ (``~``, backslashes, a URL, leading or trailing white space …) or
    if the file system denies access. Without ``base`` and ``root``, a relative path is tested from
    the directory and from the current directory of this process. If these differ, it is undecided.

    Links are resolved during the test. A link that is created later may lead elsewhere, so the tool
    must open files safely itself.
    """

    _verbs = ("is under", "is not under")
    _base: str | None

    def __init__(
        self,
        *directories: str | os.PathLike[str],
        base: str | os.PathLike[str] | None = None,
    ) -> None:
        base = None if base is None else expanded_directory(base)
        if base is not None and not _isabs(base):
            raise UsageError(f"base must be an absolute directory, not {shown(base)}")
        expanded = map(expanded_directory, directories)
        # An empty string stays empty, so that the base class raises.
        super().__init__(*(path and _join(base or "", path) for path in expanded))
        self._set(*self._parts, _base=base)

    def bound(self, root: str | None) -> "Under":
        bound = Under(*self._parts, base=self._base or root)
        bound._require_absolute()
        return bound

    def _require_absolute(self) -> None:
        for directory in self._parts:
            if not _isabs(directory):
                required = "must be absolute, or the policy must have a root"
                raise UsageError(f"under {shown(directory)} {required}")

    def _test_text(self, text: str) -> Answer:
        self._require_absolute()
        why = _ambiguity(text)
        if why is not None:
            return Undecided(why)
        unclear: Undecided | None = None
        for directory in self._parts:
            try:
                if self._leads_into(text, directory):
                    return True
            except AmbiguousPathError as error:
                unclear = unclear or Undecided(str(error))
        return unclear or False

    def _leads_into(self, text: str, directory: str) -> bool:
        if self._base is not None or _isabs(text):
            return _is_inside(_join(self._base or directory, text), directory)
        try:
            here = str(Path.cwd())
        except OSError:
            message = "it is relative, and the current directory does not exist"
            raise AmbiguousPathError(message) from None
        is_inside = _is_inside(_join(directory, text), directory)
        if is_inside is not _is_inside(_join(here, text), directory):
            raise AmbiguousPathError("it is relative, and the policy has no root")
        return is_inside

    def __repr__(self) -> str:
        base = "" if self._base is None else f", base={self._base!r}"
        return f"Under({', '.join(map(repr, self._parts))}{base})"


def expanded_directory(directory: str | os.PathLike[str]) -> str:
    if not isinstance(directory, str | os.PathLike):
        raise UsageError(f"a directory must be a string or a path, not {shown(directory)}")
    path = os.fspath(directory)
    if "\0" in path:
        raise UsageError(f"a directory cannot contain NUL: {shown(path)}")
    expanded = _expanduser(path)
    if expanded.startswith("~"):
        raise UsageError(f"no home directory for {shown(path)}")
    return expanded


def _is_inside(path: str, directory: str) -> bool:
    real_directory = _resolve(directory)
    # The system applies ".." to the target of a link. Many tools remove the name before ".."
    # instead. The target is known only if both lead to the same answer.
    as_opened = _is_resolved_inside(_resolve(path), real_directory)
    as_written = _is_resolved_inside(_resolve(os.path.normpath(path)), real_directory)
    if as_opened is not as_written:
        raise AmbiguousPathError("it has '..' after a symbolic link, which is ambiguous")
    return as_opened


class AmbiguousPathError(Exception):
    """The target of a path is unknown. In the message, ``it`` is the path."""


def _ambiguity(path: str) -> str | None:
    """Return why tools may open different files, with ``it`` for the path, or None."""
    if not path:
        return "it is empty"
    if len(path) > _MAX_CHARS:
        return f"it is longer than {_MAX_CHARS} characters"
    if path.startswith("~"):
        return "it begins with '~', which many tools replace with a home directory"
    if path != path.strip():
        return "it begins or ends with white space"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in path):
        return "it contains a control character"
    if _VARIABLE.search(path):
        return "it contains '$', which some tools replace with a variable"
    if not path.isascii():
        plain = unicodedata.normalize("NFKC", path)
        if any(plain.count(character) != path.count(character) for character in _STRUCTURE):
            return "it contains a character that some systems turn into a slash or a dot"
    names = re.split(r"[/\\]", path)
    if any(name.endswith((".", " ")) and name not in (".", "..") for name in names):
        return "it contains a name that ends with a dot or a space"
    if os.name == "nt":
        return _windows_ambiguity(path)
    if "\\" in path:
        return "it contains a backslash"
    return "it begins like a URL or a drive" if _SCHEME.match(path) else None


def _windows_ambiguity(path: str) -> str | None:
    rest = path[2:] if _DRIVE.match(path) else path
    if ":" in rest:
        return "it contains a colon"
    if path.startswith(("//", "\\\\", "\\/", "/\\")):
        return "it begins with two slashes"
    if "~" in path:
        return "it contains '~', as short names of Windows do"
    if "%" in path:
        return "it contains '%', which some tools replace with a variable"
    return None


def _resolve(path: str) -> str:
    """Resolve all symbolic links of an absolute path. Names that do not exist are kept.

    ``..`` is applied to the target of a link, as the system does. Raises ``AmbiguousPathError`` if
    access is denied.
    """
    try:
        return os.path.realpath(path) if os.name == "nt" else _resolve_links(path)
    except OSError as error:
        raise _unresolved(error) from None
    except ValueError:
        raise AmbiguousPathError("it is not a valid path") from None


def _unresolved(error: OSError) -> AmbiguousPathError:
    reason = (error.strerror or type(error).__name__).lower()
    return AmbiguousPathError(f"it cannot be resolved ({reason})")


def _resolve_links(path: str) -> str:
    # os.path.realpath ignores loops and directories without access. Both must be errors here.
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
        if links > _MAX_LINKS:
            raise AmbiguousPathError("it has too many symbolic links, maybe in a loop")
        if step.startswith("/proc/"):
            raise AmbiguousPathError("it has a link in /proc, which differs for each process")
        target = str(Path(step).readlink())
        if target.startswith("/"):
            current = "/"
        names += target.split("/")[::-1]
    return current


def _is_resolved_inside(path: str, directory: str) -> bool:
    """Return True if a resolved path is a resolved directory, or below it.

    The same directory may have several names: the file system may ignore case or the composition of
    letters, or it is mounted twice. So directories that exist are compared by device and inode.
    """
    if _is_below(path, directory):
        return True
    identity = _identity(directory)
    ancestors = map(str, (PurePath(path), *PurePath(path).parents))
    if identity is not None and identity in map(_identity, ancestors):
        return True
    if not _is_below(_folded(path), _folded(directory)):
        return False
    depth = len(PurePath(directory).parts)
    namesake = str(PurePath(*PurePath(path).parts[:depth]))
    if identity is None or _identity(namesake) is None:
        raise AmbiguousPathError("its case or Unicode form differs from that of the directory")
    return False


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of a path, or None if it does not exist."""
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unresolved(error) from None
    return status.st_dev, status.st_ino


class _PathCondition(StringCondition):
    """Base class of conditions on text that may be a path, which has many spellings.

    The text is compared as it is written. If another spelling of the same path would change the
    answer, the answer is undecided.
    """

    _matchers: tuple["Matcher", ...]
    _normalized: tuple["Matcher", ...]  # for normalized paths

    def __init__(self, *patterns: str) -> None:
        super().__init__(*patterns)
        matchers = tuple(map(self._compile, patterns))
        normal = tuple(map(self._normalize, patterns))
        normalized = matchers if normal == patterns else tuple(map(self._compile, normal))
        self._set(*patterns, _matchers=matchers, _normalized=normalized)

    @staticmethod
    @abstractmethod
    def _compile(pattern: str) -> "Matcher": ...

    @staticmethod
    @abstractmethod
    def _normalize(pattern: str) -> str: ...

    def _test_text(self, text: str) -> Answer:
        matches = any(match(text) for match in self._matchers)
        readings = _readings(text)
        if _UP.search(text.strip()) and (matches or self._depends_on_parents(text, readings[0])):
            return Undecided("it contains '..' (use under for directories)")
        if readings == [text] and self._normalized is self._matchers:
            return matches
        matching = (one for one in readings if any(match(one) for match in self._normalized))
        other = next(matching, None)
        if (other is not None) is matches:
            return matches
        other = readings[0] if other is None else other
        reading = "a path with another spelling" if other == text else shown(other)
        return Undecided(f"it may also be read as {reading}")

    def _depends_on_parents(self, text: str, normalized: str) -> bool:
        """Return True if ``..`` may change the answer. A glob such as ``**/.env`` tests a name."""
        others = [one for one in self._parts if _NAME_GLOB.fullmatch(one) is None]
        if len(others) < len(self._parts) and _ENDS_WITH_UP.search(text.strip()):
            return True
        has_slash = any("/" in one or "\\" in one for one in others)
        return has_slash or (bool(others) and normalized.split("/").count("..") > _MAX_LEVELS)


def _readings(text: str) -> list[str]:
    """Return the normalized spellings of a path.

    There are two for a directory, because many tools ignore the slash at its end. The working
    directory is unknown, so a path that goes up may lead back into it: each level may cancel one
    leading name.

    >>> _readings("/etc//./passwd"), _readings("a/"), _readings("../project/.env")
    (['/etc/passwd'], ['a', 'a/'], ['../project/.env', 'project/.env', '.env'])
    """
    if _NOT_NORMALIZED.search(text) is None:
        return [text]
    written = text.strip().replace("\\", "/")
    path = posixpath.normpath(written) if written else ""
    path = path[1:] if path.startswith("//") else path  # POSIX keeps two slashes
    readings = [path, path.rstrip("/") + "/"] if written.endswith(("/", "/.")) else [path]
    names = path.split("/")
    levels = names[:-1].count("..")
    most = min(levels, _MAX_LEVELS, len(names) - levels - 1)
    canceled = range(most + 1) if levels else ()
    return readings + ["/".join(names[levels + number :]) for number in canceled]


def _normalized_pattern(pattern: str) -> str:
    """Normalize a pattern except for its last segment, which may be incomplete."""
    directory, slash, last = pattern.rpartition("/")
    directory = posixpath.normpath(directory) if directory else ""
    return last if directory == "." else directory + slash + last


class Prefix(_PathCondition):
    """The string begins with one of these.

    The text is compared as it is written. If another spelling of the same path would change the
    answer, it is undecided: ``//etc/passwd`` with the prefix ``/etc/``, ``src/../..`` with ``src``.
    Use ``Under`` for directories.
    """

    _verbs = ("begins with", "does not begin with")

    @staticmethod
    def _compile(pattern: str) -> "Matcher":
        # The prefix "./" is empty when normalized: every relative path begins with it.
        return re.compile(re.escape(pattern) or "(?!/)").match

    @staticmethod
    def _normalize(pattern: str) -> str:
        return _normalized_pattern(pattern.replace("\\", "/"))


class Glob(_PathCondition):
    """The whole string matches one of these globs.

    ``*`` matches any characters except ``/``, ``**/`` any number of directories, ``/**`` at the end
    everything below, ``?`` one character except ``/``, ``[a-z]`` one of a set and ``[!a-z]`` one
    that is not in it. A leading dot has no special meaning; case matters. As with ``Prefix``, the
    answer is undecided if another spelling of the path would change it.

    >>> Glob("**/*.env").test("config/.env"), Glob("*.env").test("config/.env")
    (True, False)
    >>> Glob("**/.env").test("config/.env/")
    Undecided(why='it may also be read as "config/.env"')
    """

    _verbs = ("matches the glob", "does not match the glob")

    @staticmethod
    def _compile(pattern: str) -> "Matcher":
        return compile_glob(pattern, paths=True)

    @staticmethod
    def _normalize(pattern: str) -> str:
        tokens = _TOKENS.findall(pattern)
        return _normalized_pattern("".join("/" if one == "[\\]" else one for one in tokens))


def is_glob(text: str) -> bool:
    return not _SPECIAL.isdisjoint(text)


Matcher: TypeAlias = Callable[[str], object]
"""Tests a whole text. The result is true if it matches."""


def compile_glob(glob: str, *, paths: bool) -> Matcher:
    """Compile a glob, to one regular expression for each segment of a path.

    Without ``paths``, a slash is an ordinary character. A test is linear in the length of the text:
    ``fnmatch.translate`` uses atomic groups, which do not backtrack over a star.
    """
    if not paths:
        return _compile_tokens(_glob_tokens(glob))
    steps = [None if tokens == ["**"] else _compile_tokens(tokens) for tokens in _split_glob(glob)]
    return partial(_matches_segments, steps)


def _compile_tokens(tokens: list[str]) -> Matcher:
    return re.compile(fnmatch.translate("".join(tokens))).match


def _matches_segments(steps: Sequence[Matcher | None], text: str) -> bool:
    """Match each name of a path. A step of None is ``**``: any number of names, also none."""
    names = text.split("/")
    step = name = 0
    star, after = -1, 0  # the last ** so far, and the first name that it does not match
    while name < len(names):
        matcher = steps[step] if step < len(steps) else None
        if step < len(steps) and matcher is None:
            star, after = step, name
            step += 1
        elif matcher is not None and matcher(names[name]):
            step += 1
            name += 1
        elif star >= 0:
            after += 1
            step, name = star + 1, after
        else:
            return False
    return not any(steps[step:])


def _split_glob(glob: str) -> list[list[str]]:
    """Split a glob into segments of tokens. ``**`` at the end means ``**/*``."""
    segments: list[list[str]] = [[]]
    for token in _glob_tokens(glob):
        if token == "/":
            segments.append([])
        else:
            segments[-1].append(token)
    for tokens in segments:
        if tokens != ["**"] and any(token.startswith("**") for token in tokens):
            raise UsageError(
                f"the glob {glob!r} has ** beside other characters. Write * for any characters "
                "of one name, and **/ for any number of directories"
            )
    return [*segments, ["*"]] if segments[-1] == ["**"] else segments


def _glob_tokens(glob: str) -> list[str]:
    """Return the sets, the runs of stars and the other characters of a glob."""
    tokens = _TOKENS.findall(glob)
    for place, token in enumerate(tokens):
        if token in "{}\\":
            raise UsageError(
                f"the glob {glob!r} contains {token!r}, which glob dialects read in different "
                f"ways. Write [{token}] for the character itself, or pass several globs as "
                "alternatives"
            )
        if token == "[":
            raise UsageError(f"the glob {glob!r} has '[' without ']'. Write [[] for a bracket")
        if token[0] == "[":
            negation, members = ("!", token[2:-1]) if token[1] in "!^" else ("", token[1:-1])
            for first, last in _SET_MEMBERS.findall(members):
                if first > last:
                    raise UsageError(f"the glob {glob!r} has the empty range {first}-{last}")
            tokens[place] = f"[{negation}{members}]"
    return tokens
