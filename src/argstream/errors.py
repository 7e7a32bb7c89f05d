"""The exceptions of ``argstream.errors``, as one tree.

::

    ArgstreamError
    ├── UsageError                    (also ValueError) the caller passed something that cannot work
    │   ├── SchemaError               a JSON Schema that cannot be used
    │   ├── RunNotFoundError          (also LookupError) the store has no such run
    │   ├── ConversationNotFoundError (also LookupError) the store has no such conversation
    │   └── AlreadyDecidedError       the call has a decision; the first one counts
    ├── MissingExtraError             (also ImportError) an optional dependency is not installed
    ├── ArgumentUnavailableError      (also LookupError) the argument can no longer arrive
    ├── ToolError                     a tool failed
    ├── StoreError                    a store cannot be reached, read or written
    ├── RunBusyError                  another process drives the run
    │   └── LeaseLostError            the process held the lease of the run and lost it
    ├── TextInterruptedError          a ``Streamed`` text ended before it was complete
    └── StreamError                   the stream failed
        ├── ProviderError             a provider rejected a request, or could not be reached
        └── RunError                  a run failed

A stream reports errors of a model or a provider as events, and the parser as an ``Invalid``
fragment, so one bad call never ends a stream. A function that cannot return the value it promises
raises.
"""

from typing import Any


class ArgstreamError(Exception):
    """Base class of all exceptions of argstream."""


class UsageError(ArgstreamError, ValueError):
    """The caller passed something that cannot work. The message states the problem and the fix."""


class SchemaError(UsageError):
    """A JSON Schema that cannot be used: it is invalid, or it exceeds a limit."""

    def __init__(self, message: str, *, pointer: str = "#", reason: str = "invalid") -> None:
        super().__init__(f"{message} (at {pointer})")
        self.message = message
        self.pointer = pointer
        """The place in the schema: a JSON pointer; ``#`` is the whole schema."""
        self.reason = reason
        """``invalid``, ``unresolvable``, or the limit: ``too_deep``, ``loop`` …"""


class RunNotFoundError(UsageError, LookupError):
    """The store has no run with this ID."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"no run {run_id!r} in the store. It was deleted, or the ID is wrong")
        self.run_id = run_id


class ConversationNotFoundError(UsageError, LookupError):
    """The store has no conversation with this ID."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"no conversation {conversation_id!r} in the store. It has no runs, or the ID or the "
            "user is wrong"
        )
        self.conversation_id = conversation_id


class AlreadyDecidedError(UsageError):
    """The call already has a decision. The first decision counts."""

    def __init__(self, call_id: str) -> None:
        super().__init__(f"the call {call_id!r} already has a decision")
        self.call_id = call_id


class StoreError(ArgstreamError):
    """A store cannot be reached, read or written. Acknowledged writes are not lost."""


class RunBusyError(ArgstreamError):
    """Another process drives the run."""

    def __init__(self, run_id: str, owner: str, seconds: float) -> None:
        super().__init__(
            f"the run {run_id!r} is driven by {owner}. If that process has died, the run can be "
            f"resumed within {seconds:.1f} s"
        )
        self.run_id = run_id
        self.owner = owner
        """The process that drives the run; empty if none does."""
        self.seconds = seconds
        """The seconds until its lease expires, unless it is renewed."""


class LeaseLostError(RunBusyError):
    """The process held the lease of the run and lost it, so it can write nothing more."""

    def __init__(self, run_id: str, owner: str = "", seconds: float = 0.0) -> None:
        super().__init__(run_id, owner, seconds)

    def __str__(self) -> str:
        holder = f"{self.owner} drives the run" if self.owner else "another process acquired it"
        return f"the lease on run {self.run_id!r} was lost: {holder}"


class MissingExtraError(ArgstreamError, ImportError):
    """The optional dependencies of a feature are not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the extra {extra!r}. In a checkout: pip install '.[{extra}]'"
        )
        self.extra = extra


class ArgumentUnavailableError(ArgstreamError, LookupError):
    """A reader waits for an argument that can no longer arrive. The message lists what did."""

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
        """The argument; empty for the whole call."""
        self.verdict = verdict
        """The verdict of the call; ``open`` if it continues without the argument."""
        self.error = error
        """The ``ArgumentsError`` of an invalid call, if there is one."""


class StreamError(ArgstreamError):
    """The stream failed. Carries the data of ``StreamFailed`` or ``RunFailed``."""

    def __init__(self, code: str, message: str, retryable: bool = False) -> None:  # noqa: FBT001, FBT002 - as the event
        super().__init__(code, message, retryable)
        self.code = code
        """The provider's own code if it sent one, else a ``FailureCode`` such as ``truncated``."""
        self.message = message
        self.retryable = retryable
        """Whether the same request may succeed later."""

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class ProviderError(StreamError):
    """A provider rejected a request, could not be reached, or broke off its response.

    It never contains the key or other secrets of the request.
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
        """The HTTP status, if there was a response."""
        self.request_id = request_id
        """The provider's request ID, for support requests."""


class RunError(StreamError):
    """A run of an agent failed. Carries the data of ``RunFailed``."""

    def __init__(
        self,
        code: str,
        message: str,
        result: Any = None,
        retryable: bool = False,  # noqa: FBT001, FBT002 - as above
    ) -> None:
        super().__init__(code, message, retryable)
        self.result = result
        """The ``RunResult`` so far: the text, and the calls that were made."""


class TextInterruptedError(ArgstreamError):
    """A ``Streamed`` text ended before it was complete. Undo what was done with it."""

    def __init__(self, message: str, *, verdict: str, error: Any = None) -> None:
        super().__init__(message)
        self.verdict = verdict
        """The verdict of the call: ``truncated``, ``malformed``, ``rejected`` or ``aborted``."""
        self.error = error
        """The ``ArgumentsError`` with the reason, if there is one."""


class ToolError(ArgstreamError):
    """A tool failed. A tool may raise it with a message for the model.

    argstream raises it for a tool that calls ``sys.exit`` or returns a value that is not JSON.
    """

    def __init__(self, message: str, *, kind: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        """The type name of the tool's exception, if this error replaces it."""
