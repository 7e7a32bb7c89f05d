"""What the mock's three APIs share: a turn to be written, and how events and errors are framed."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from argstream.testing.chunking import cut
from argstream.testing.script import CallTool, Reply, Think

if TYPE_CHECKING:
    from argstream.testing._mock_memory import Memory

__all__ = [
    "FIRST_SECOND",
    "STATUS_MESSAGES",
    "Dialect",
    "Problem",
    "Turn",
    "decode",
    "encode",
    "openai_error",
    "seal",
    "sse",
]

FIRST_SECOND: Final = 1_767_225_600
"""When the mock's first answer was made, by its own account: the same in every run."""

STATUS_MESSAGES: Final = {
    429: "Rate limited, as was asked of the mock provider",
    500: "Internal server error, as was asked of the mock provider",
    529: "Overloaded, as was asked of the mock provider",
}
_OPENAI_ERRORS: Final = {
    401: ("invalid_request_error", "invalid_api_key"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("server_error", "overloaded"),
    529: ("server_error", "overloaded"),
}


@dataclass(frozen=True)
class Turn:
    """A reply that is about to be written, and what its request said."""

    number: int
    """Of the answers so far, this one included: ids are made from it."""
    reply: Reply
    body: dict[str, Any]

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return str(self.body["model"])

    def pieces(self, text: str) -> list[str]:
        """Cut a text as a model writes it."""
        return cut(text, [self.reply.piece_size])

    def ids(self, prefix: str) -> list[str]:
        """Give each part an id; a call keeps that of the script."""
        return [
            (isinstance(part, CallTool) and part.call_id) or f"{prefix}mock_{self.number}_{index}"
            for index, part in enumerate(self.reply.parts)
        ]

    @property
    def input_tokens(self) -> int:
        """A count that grows with each turn, as a history does."""
        return 100 * self.number

    @property
    def output_tokens(self) -> int:
        """A token for each piece."""
        return self._tokens(lambda _: True)

    @property
    def thinking_tokens(self) -> int:
        """How many of them are thinking."""
        return self._tokens(lambda part: isinstance(part, Think))

    def _tokens(self, counts: Callable[[object], bool]) -> int:
        texts = (
            part.arguments if isinstance(part, CallTool) else part.text
            for part in self.reply.parts
            if counts(part)
        )
        return sum(len(self.pieces(text)) for text in texts)


class Problem(NamedTuple):
    """What is wrong with a request."""

    message: str
    status: int = 400


class Dialect(Protocol):
    """One API: how it answers, fails, and refuses."""

    protocol: str
    """Its name, as in ``argstream.adapters``."""
    route: str

    def streamed(self, turn: Turn) -> list[bytes]:
        """Write an answer as events."""

    def whole(self, turn: Turn) -> dict[str, Any]:
        """Write an answer at once."""

    def error(self, status: int, message: str) -> dict[str, Any]:
        """Write the body of an error."""

    def error_events(self, status: int, message: str, position: int) -> list[bytes]:
        """Write the events of an error that comes after so many others."""

    def problems(
        self, headers: Mapping[str, str], body: dict[str, Any], memory: "Memory | None"
    ) -> list[Problem]:
        """Say what is wrong; ``memory`` is what was said so far, None if that is not known."""


def decode(data: bytes) -> Any:
    """Read JSON; None if it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def encode(payload: object) -> bytes:
    """Write JSON as providers do: compact, and beyond ASCII as it is."""
    try:
        return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can write
        return json.dumps(payload, separators=(",", ":")).encode()


def sse(payload: dict[str, Any] | bytes, name: str = "") -> bytes:
    """Frame a payload as a server-sent event."""
    data = payload if isinstance(payload, bytes) else encode(payload)
    return (b"event: %s\n" % name.encode() if name else b"") + b"data: %s\n\n" % data


def seal(text: str) -> str:
    """Sign a thought, so that it can be told whether it comes back unchanged."""
    return "mock_" + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def openai_error(status: int, message: str) -> dict[str, Any]:
    """Give OpenAI's form of an error, which both of its APIs share."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    type_, code = _OPENAI_ERRORS.get(status, (kind, "server_error" if status >= 500 else None))
    return {"message": message, "type": type_, "param": None, "code": code}
