"""Every exception that argstream raises, as one small tree.

::

    ArgstreamError
    ├── UsageError           (also a ValueError) a call that cannot work: a wrong type, a limit of 0
    │   ├── SchemaError      a JSON Schema that cannot be used; says where it is wrong
    │   ├── RunNotFoundError       (also a LookupError) a run that the store does not have
    │   └── AlreadyDecidedError   a call on which somebody else has decided before
    ├── MissingExtraError         (also an ImportError) a part that is not installed; says how to do it
    ├── ArgumentUnavailableError  (also a LookupError) what a reader wants will not come; says what did
    ├── ToolError          a tool refused, tried to end the program, or returned no JSON
    ├── StoreError         a store cannot be reached, or read; what was acknowledged is there
    ├── RunBusyError             another process drives the run; says who, and until when
    ├── TextInterruptedError      the text that a tool reads while it is written will not end well
    └── StreamError        the stream failed; for those who read calls and see no events
        ├── ProviderError  a provider refused a request, or could not be reached
        └── RunError       a run of an agent failed; for those who wait for its result

What a *model* or a *provider* got wrong is not here: that is data. It comes as an ``Invalid``
fragment with a reason and an offset, so that one bad call never takes a stream down. Only those
raise who promised a value and have none to give, or have no other way to tell: readers, a tool's
``Streamed`` text, a model that has not begun to answer.
"""

from typing import Any


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


class RunNotFoundError(UsageError, LookupError):
    """A run that the store does not have."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"the store has no run {run_id!r}: it was never there, or has expired")
        self.run_id = run_id


class AlreadyDecidedError(UsageError):
    """A call that was decided before. The first decision counts."""

    def __init__(self, call_id: str) -> None:
        super().__init__(f"the call {call_id!r} has been decided on already")
        self.call_id = call_id


class StoreError(ArgstreamError):
    """A store cannot be reached, or read, or is full. What it has acknowledged is there."""


class RunBusyError(ArgstreamError):
    """Another process drives the run, so this one does nothing more for it."""

    def __init__(self, run_id: str, owner: str, seconds: float) -> None:
        super().__init__(
            f"the run {run_id!r} is driven by {owner}: if that has died, the run can be resumed in "
            f"{seconds:.1f} s"
            if owner
            else f"the lease on the run {run_id!r} is out of date: others have it, or had it"
        )
        self.run_id = run_id
        self.owner = owner
        """Who has it now; empty if nobody does any more."""
        self.seconds = seconds
        """How long his lease is good, if he does not renew it."""


class MissingExtraError(ArgstreamError, ImportError):
    """A part of argstream was used whose optional dependencies are not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the extra {extra!r}. In a checkout: pip install '.[{extra}]'"
        )
        self.extra = extra


class ArgumentUnavailableError(ArgstreamError, LookupError):
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


class StreamError(ArgstreamError):
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


class ProviderError(StreamError):
    """A provider refused a request, could not be reached, or broke off its answer.

    It never holds the key, nor what else of the request is secret.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retryable: bool = False,
        status: int | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(code, message, retryable)
        self.status = status
        """The status of the HTTP answer, if there was one."""
        self.request_id = request_id
        """The provider's name for the request, to ask its support about."""


class RunError(StreamError):
    """A run of an agent failed: what the event ``RunFailed`` says, as an exception."""

    def __init__(
        self,
        code: str,
        message: str,
        result: Any = None,
        retryable: bool = False,  # noqa: FBT001, FBT002 - as above
    ) -> None:
        super().__init__(code, message, retryable)
        self.result = result
        """What had come of the run: its text so far, and the calls that were made."""


class TextInterruptedError(ArgstreamError):
    """The text that a tool was reading is over, and not all there: undo what was done with it."""

    def __init__(self, message: str, *, verdict: str, error: Any = None) -> None:
        super().__init__(message)
        self.verdict = verdict
        """What became of the call: ``truncated``, ``malformed``, ``rejected`` or ``aborted``."""
        self.error = error
        """The ``ArgumentsError`` that tells why, where one is known."""


class ToolError(ArgstreamError):
    """A tool tried to end the program, or returned a value that cannot be written as JSON.

    A tool may also raise it, to tell the model in words why it refused.
    """

    def __init__(self, message: str, *, kind: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        """The name of the exception's type, if the tool raised one that could not be passed on."""
