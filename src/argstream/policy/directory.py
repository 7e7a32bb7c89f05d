"""``Under``: an argument is a path that lies in a directory, however it is written."""

import os

from argstream.errors import UsageError
from argstream.policy._condition import Answer, Unclear
from argstream.policy._paths import UntellableError, is_inside, oddity, resolve
from argstream.policy._wording import listed, shown
from argstream.policy.texts import StringCondition

__all__ = ["Under", "expanded_directory"]


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

    __slots__ = ("_base",)

    _base: str | None

    def __init__(
        self,
        *directories: str | os.PathLike[str],
        base: str | os.PathLike[str] | None = None,
    ) -> None:
        base = None if base is None else expanded_directory(base)
        if base is not None and not os.path.isabs(base):  # noqa: PTH117 - text, not a path object
            raise UsageError(f"{shown(base)} must be an absolute directory for paths to begin at")
        expanded = map(expanded_directory, directories)
        # An empty one stays empty, for the base class to refuse.
        super().__init__(*(path and os.path.join(base or "", path) for path in expanded))  # noqa: PTH118
        object.__setattr__(self, "_base", base)

    def bound(self, root: str | None) -> "Under":
        """See the base."""
        bound = Under(*self._parts, base=self._base or root)
        bound._demand_absolute()
        return bound

    def _demand_absolute(self) -> None:
        for directory in self._parts:
            if not os.path.isabs(directory):  # noqa: PTH117
                raise UsageError(
                    f"under {shown(directory)}: give an absolute directory, or the policy a root"
                )

    def _test_text(self, text: str) -> Answer:
        self._demand_absolute()
        why = oddity(text)
        if why is not None:
            return Unclear(why)
        unclear: Unclear | None = None
        for directory in self._parts:
            try:
                if self._leads_into(text, directory):
                    return True
            except UntellableError as error:
                unclear = unclear or Unclear(str(error))
        return unclear or False

    def _leads_into(self, text: str, directory: str) -> bool:
        answers = {
            _is_inside(os.path.join(base, text), directory)  # noqa: PTH118
            for base in self._bases(text, directory)
        }
        if len(answers) > 1:
            raise UntellableError("it is relative, and the policy has no root for it to begin at")
        return answers.pop()

    def _bases(self, text: str, directory: str) -> list[str]:
        """Say where the path may begin, if it is relative."""
        if self._base is not None:
            return [self._base]
        if os.path.isabs(text):  # noqa: PTH117
            return [directory]
        try:
            return [directory, os.getcwd()]  # noqa: PTH109
        except OSError:
            raise UntellableError("it is relative, and this process is nowhere") from None

    def words(self, *, negated: bool = False) -> str:
        """See the base."""
        return f"{'is not' if negated else 'is'} under {listed(self._parts)}"

    def __repr__(self) -> str:
        base = "" if self._base is None else f", base={self._base!r}"
        return f"Under({', '.join(map(repr, self._parts))}{base})"


def _is_inside(path: str, directory: str) -> bool:
    real_directory = resolve(directory)
    # The system goes up from where a link leads; many tools strike out the name before "..",
    # without a look. Only where both come to the same is it known what will be opened.
    as_opened = is_inside(resolve(path), real_directory)
    as_written = is_inside(resolve(os.path.normpath(path)), real_directory)
    if as_opened is not as_written:
        raise UntellableError("it goes up through a symbolic link, which tools do differently")
    return as_opened


def expanded_directory(directory: str | os.PathLike[str]) -> str:
    """Read a directory as whoever writes a policy means it: ``~`` is their home."""
    if not isinstance(directory, str | os.PathLike):
        raise UsageError(f"{shown(directory)} is no directory: give a string or a path")
    path = os.fspath(directory)
    if "\0" in path:
        raise UsageError(f"{shown(path)} is no directory: it has a NUL in it")
    expanded = os.path.expanduser(path)  # noqa: PTH111
    if expanded.startswith("~"):
        raise UsageError(f"{shown(path)}: there is no such home directory")
    return expanded
