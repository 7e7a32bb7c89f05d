"""Every exception that argstream raises, as one small tree.

::

    ArgstreamError
    ├── UsageError           (also a ValueError) a call that cannot work: a wrong type, a limit of 0
    │   └── SchemaError      a JSON Schema that cannot be used; says where it is wrong
    ├── MissingExtra         (also an ImportError) a part that is not installed; says how to do it
    ├── ArgumentUnavailable  (also a LookupError) what a reader wants will not come; says what did
    └── StreamFailure        the stream failed; for those who read calls and see no events

What a *model* or a *provider* got wrong is not here: that is data. It comes as an ``Invalid``
fragment with a reason and an offset, so that one bad call never takes a stream down. Only readers
raise: they promised a value and have none to give, or have no other way to tell.
"""

from typing import Any

__all__ = [
    "ArgstreamError",
    "ArgumentUnavailable",
    "MissingExtra",
    "SchemaError",
    "StreamFailure",
    "UsageError",
]


class ArgstreamError(Exception):
    """The root of the tree: catch this to catch them all."""


class UsageError(ArgstreamError, ValueError):
    """The caller asked for something that cannot work; the message says what to do instead."""


class SchemaError(UsageError):
    """A JSON Schema that cannot be used: it is wrong, or it is more than its limits allow."""

    def __init__(self, message: str, *, pointer: str = "#", reason: str = "invalid") -> None:
        super().__init__(f"{message} (at {pointer})")
        self.message = message
        self.pointer = pointer
        """Where in the schema: a JSON pointer, ``#`` for the whole."""
        self.reason = reason
        """In one word: ``invalid``, ``unresolvable``, or the limit: ``too_deep``, ``loop`` …"""


class MissingExtra(ArgstreamError, ImportError):  # noqa: N818 - it names what is missing
    """A part of argstream was used whose optional dependencies are not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs an extra: pip install 'argstream[{extra}]'")
        self.extra = extra


class ArgumentUnavailable(ArgstreamError, LookupError):  # noqa: N818 - it says what is the case
    """What a reader was asked for did not come and will not; the message says what did."""

    def __init__(
        self,
        message: str,
        *,
        path: tuple[str | int, ...] = (),
        verdict: str = "open",
        error: Any = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        """Which argument; empty for the call as a whole."""
        self.verdict = verdict
        """What had become of the call: ``open`` if it goes on without the argument."""
        self.error = error
        """The ``ArgumentsError`` of a call that is not valid, where one is known."""


class StreamFailure(ArgstreamError):  # noqa: N818 - as above
    """The stream failed: what the event ``StreamFailed`` or ``RunFailed`` says, as an exception."""

    def __init__(self, code: str, message: str, retryable: bool = False) -> None:  # noqa: FBT001, FBT002 - as the event
        super().__init__(code, message, retryable)
        self.code = code
        """What went wrong, in one word: the provider's, or one of ours such as ``truncated``."""
        self.message = message
        self.retryable = retryable
        """Whether the same request may well succeed if it is made again."""

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"
