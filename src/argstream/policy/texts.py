"""Conditions about strings, as the tool will see them: decoded, but spelt as the model spelt them.

``Under``, the one that looks at the file system, has a module of its own.
"""

import re
from abc import abstractmethod
from typing import Any

from argstream.errors import UsageError
from argstream.policy._condition import Answer, Condition, Unclear
from argstream.policy._glob import CompiledGlob
from argstream.policy._spelling import (
    MOST_LEVELS,
    ends_upwards,
    goes_up,
    has_separator,
    is_name_glob,
    levels_up,
    other_readings,
    readings_from_above,
    tidied_glob,
    tidied_prefix,
)
from argstream.policy._wording import kind_of, listed, shown

__all__ = ["Glob", "Prefix", "Regex", "Search", "StringCondition"]


class StringCondition(Condition):
    """The base of conditions about strings, as the tool will see them: decoded."""

    __slots__ = ()

    def __init__(self, *texts: str) -> None:
        name = type(self).__name__
        if not texts:
            raise UsageError(f"{name} needs at least one string")
        for text in texts:
            if not isinstance(text, str):
                raise UsageError(f"{name} needs strings, and {shown(text)} is {kind_of(text)}")
            if not text:
                raise UsageError(f"{name}: an empty string says nothing; leave it out")
        self._set(*texts)

    def test(self, value: Any) -> Answer:
        """See the base."""
        if not isinstance(value, str):
            return Unclear(f"it is {kind_of(value)}, not a string")
        return self._test_text(value)

    @abstractmethod
    def _test_text(self, text: str) -> Answer:
        """Say whether it holds of a string."""


class _PathCondition(StringCondition):
    """The base of conditions about texts that may be paths, spelt in many ways.

    The text counts as it is written. If it is a path, the same may be written otherwise: where the
    answer would be another then, it cannot be told.
    """

    __slots__ = ("_is_tidy", "_names")

    _is_tidy: bool
    _names: tuple[str, ...]
    """Those of its patterns for which the last name of a path decides, whatever is before it."""

    def _test_text(self, text: str) -> Answer:
        matches = self._matches(text)
        readings = other_readings(text)
        if goes_up(text):
            if self._loses_its_way(text, readings[0], matches=matches):
                return Unclear("it has a '..' in it; for directories use under")
            readings += readings_from_above(readings[0])
        if not readings and self._is_tidy:
            return matches
        matching = next(filter(self._matches_tidily, readings or (text,)), None)
        if (matching is not None) is not matches:
            meant = matching or readings[0] if readings else None
            said = "a path that is written otherwise" if meant is None else shown(meant)
            return Unclear(f"it may also be read as {said}")
        return matches

    def _loses_its_way(self, text: str, tidy: str, *, matches: bool) -> bool:
        """Say whether ``..`` in a text may lead to what the patterns are about, or away from it."""
        others = [pattern for pattern in self._parts if pattern not in self._names]
        if any(map(has_separator, others)) or (self._names and ends_upwards(text)):
            return True
        if others and levels_up(tidy) > MOST_LEVELS:
            return True
        return matches  # to allow what leads up is not what is meant

    @abstractmethod
    def _matches(self, text: str) -> bool:
        """Answer for the text as it is written."""

    @abstractmethod
    def _matches_tidily(self, text: str) -> bool:
        """Answer for a tidy path, as the condition would be written for those."""


class Prefix(_PathCondition):
    """It begins with this, or with one of these.

    The text is taken as it is written. If as a path it may also be read in another way, and that
    makes a difference, it cannot be told: ``//etc/passwd`` where the prefix is ``/etc/``,
    ``src/../..`` where it is ``src``. For directories there is ``Under``.
    """

    __slots__ = ("_tidy",)

    _tidy: tuple[str, ...]

    def __init__(self, *prefixes: str) -> None:
        super().__init__(*prefixes)
        object.__setattr__(self, "_tidy", tuple(map(tidied_prefix, prefixes)))
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
        """See the base."""
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
    Unclear(why='it may also be read as "config/.env"')
    """

    __slots__ = ("_compiled", "_tidy")

    _compiled: tuple[CompiledGlob, ...]
    _tidy: tuple[CompiledGlob, ...]

    def __init__(self, *patterns: str) -> None:
        super().__init__(*patterns)
        compiled = tuple(CompiledGlob(pattern, paths=True) for pattern in patterns)
        tidied = tuple(map(tidied_glob, patterns))
        is_tidy = tidied == patterns
        tidy = compiled if is_tidy else tuple(CompiledGlob(glob, paths=True) for glob in tidied)
        object.__setattr__(self, "_compiled", compiled)
        object.__setattr__(self, "_tidy", tidy)
        object.__setattr__(self, "_is_tidy", is_tidy)
        object.__setattr__(self, "_names", tuple(filter(is_name_glob, patterns)))

    def _matches(self, text: str) -> bool:
        return any(glob.matches(text) for glob in self._compiled)

    def _matches_tidily(self, text: str) -> bool:
        return any(glob.matches(text) for glob in self._tidy)

    def words(self, *, negated: bool = False) -> str:
        """See the base."""
        return f"{'does not match' if negated else 'matches'} the glob {listed(self._parts)}"


class Regex(StringCondition):
    """All of it matches this regular expression, or one of these: ``re.fullmatch``.

    ``.`` does not match a newline unless the expression begins with ``(?s)``. A bad expression can
    take long on a text made for it; that is up to whoever writes the policy. The text is taken as
    it is written, also where it is a path.
    """

    __slots__ = ("_compiled",)

    _compiled: tuple[re.Pattern[str], ...]

    def __init__(self, *patterns: str) -> None:
        super().__init__(*patterns)
        object.__setattr__(self, "_compiled", tuple(_expression(text) for text in patterns))

    def _test_text(self, text: str) -> Answer:
        return any(pattern.fullmatch(text) is not None for pattern in self._compiled)

    def words(self, *, negated: bool = False) -> str:
        """See the base."""
        verb = "does not match" if negated else "matches"
        return f"{verb} the pattern {listed(self._parts)}"


class Search(Regex):
    """Somewhere in it, this regular expression matches, or one of these: ``re.search``."""

    __slots__ = ()

    def _test_text(self, text: str) -> Answer:
        return any(pattern.search(text) is not None for pattern in self._compiled)

    def words(self, *, negated: bool = False) -> str:
        """See the base."""
        verb = "has nothing in it that matches" if negated else "has something in it that matches"
        return f"{verb} the pattern {listed(self._parts)}"


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{text!r} is no regular expression: {error}") from None
