"""What a provider said, normalised: the language between decoders and assembly.

An decoder turns each payload of its protocol into these, in the order in which the provider said
them, and says nothing of its own. Calls and blocks are told apart by the provider's own key, which
is valid until the next ``TurnOpened``; ids, verdicts and JSON are the business of assembly.
"""

from collections.abc import Hashable, Mapping
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from argstream.history import CallKind

FREE_TEXT_KINDS: Final[frozenset[CallKind]] = frozenset({"custom", "code"})

RUN_BY_PROVIDER: Final[frozenset[CallKind]] = frozenset({"server", "mcp", "code"})
"""Calls that the provider runs itself, and tells the result of."""

Ending: TypeAlias = Literal["finished", "cut", "unknown"]
"""What a stop reason says of the calls before it: nothing was cut, something was, or neither."""


class Tokens(NamedTuple):
    """Token counts as the provider reported them. None: the provider did not report this count."""

    input_tokens: int | None = None
    """All input, including tokens read from or written to a cache."""
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class TurnSwitched(NamedTuple):
    """What follows belongs to another turn: of another agent, or beside the one so far.

    Each agent, and each strand of one, has an open turn of its own, with keys of its own.
    """

    parent_id: str | None = None  # the call that started the agent; None is the first one
    turn: Hashable = None  # tells apart the turns that one agent writes at the same time


class TurnOpened(NamedTuple):
    """A message of the model begins; keys of an earlier one mean nothing from here on."""

    id: str = ""
    model: str = ""


class TextPiece(NamedTuple):
    block: Hashable
    text: str


class ThinkingOpened(NamedTuple):
    block: Hashable


class ThinkingPiece(NamedTuple):
    """A piece of what it thinks. Opens the block if nothing else has."""

    block: Hashable
    text: str


class ThinkingClosed(NamedTuple):
    block: Hashable


class BlockCompleted(NamedTuple):
    """All of a block's text, said once more at its end: what had not come is new."""

    block: Hashable
    text: str
    is_thinking: bool = False


class CallOpened(NamedTuple):
    """The model calls a tool. An empty id means that the provider sent none."""

    key: Hashable
    id: str
    name: str
    kind: CallKind = "function"
    may_be_renamed: bool = False  # whether more of the name may come, as ``CallRenamed``


class CallRenamed(NamedTuple):
    key: Hashable
    name: str  # all of it


class ArgumentText(NamedTuple):
    key: Hashable
    text: str


class ArgumentValue(NamedTuple):
    """The arguments, or a part of them, as a value instead of text.

    Parts may come in any order, each once. What nobody says anything of is not there: an object or
    an array exists by its parts, or is itself a value.
    """

    key: Hashable
    path: tuple[str | int, ...]
    """Where it belongs: keys of objects and indexes of arrays; empty for all of the arguments."""
    value: object
    more: bool = False
    """Whether this is a piece of a string that goes on with the next value at the same path."""


class CallClosed(NamedTuple):
    """The provider says that the call is over, and, if it sent it again, what its whole text is."""

    key: Hashable
    text: str | None = None
    cut: bool = False  # whether the provider says that it did not finish this call


class CallResult(NamedTuple):
    """What came of a call that the provider ran itself."""

    call_id: str
    result: object
    failed: bool = False
    block: Hashable = None  # the block that it is, if it is one of its own


class Opaque(NamedTuple):
    """The provider's own form of a block, which must go back to it unchanged."""

    block: Hashable
    item: Mapping[str, object]


class TurnEnded(NamedTuple):
    """The provider says why the model stopped."""

    stop_reason: str | None
    ending: Ending
    scope: Hashable = None
    """If given, only calls whose key is a tuple that begins with it have ended."""


class UsageReported(NamedTuple):
    """The usage of the open turn so far.

    Counts are cumulative: a later count replaces an earlier one. None leaves it unchanged.
    """

    tokens: Tokens


class TurnClosed(NamedTuple):
    """The turn is over. Its usage was reported before."""


class RunEnded(NamedTuple):
    """An agent that makes turns by itself says that it has made its last one."""

    code: str
    result: object = None
    failed: bool = False
    tokens: Tokens = Tokens()


class ProviderFailed(NamedTuple):
    code: str
    message: str
    retryable: bool = False


Delta: TypeAlias = (
    TurnSwitched
    | TurnOpened
    | TextPiece
    | ThinkingOpened
    | ThinkingPiece
    | ThinkingClosed
    | BlockCompleted
    | CallOpened
    | CallRenamed
    | ArgumentText
    | ArgumentValue
    | CallClosed
    | CallResult
    | Opaque
    | TurnEnded
    | UsageReported
    | TurnClosed
    | RunEnded
    | ProviderFailed
)


class ProviderDecoder(Protocol):
    """Reads one protocol. Any object with these methods can be one."""

    protocol: str

    def feed(self, payload: object, event: str = "") -> list[Delta]:
        """Return the deltas of one payload; raise ``UnreadableError`` if it is none at all."""

    def interrupt(self) -> list[Delta]:
        """Return what was held back when a payload was lost, so that it is known as open."""
        return []

    def close(self) -> list[Delta]:
        """Return what can only be said at the end of the stream."""
        return []


class ParallelTurns:
    """The turns that are open side by side in one stream: of one session, or nodes of one graph."""

    def __init__(self) -> None:
        self.speaking: Hashable = None
        self._open: dict[Hashable, None] = {}  # in order

    @property
    def oldest(self) -> Hashable:
        """The turn that has been open for the longest time; None if none is."""
        return next(iter(self._open), None)

    def say(self, turn: Hashable, deltas: list[Delta]) -> list[Delta]:
        """Return the deltas of a turn, which is open from now on."""
        self._open[turn] = None
        return self.switch_to(turn, deltas)

    def say_last(self, turn: Hashable, deltas: list[Delta]) -> list[Delta]:
        self._open.pop(turn, None)
        return self.switch_to(turn, deltas)

    def switch_to(self, turn: Hashable, deltas: list[Delta]) -> list[Delta]:
        """Return the deltas; if another turn was spoken of last, that this changes comes first.

        The turn None stands for what belongs to no turn.
        """
        if turn == self.speaking or not deltas:
            return deltas
        self.speaking = turn
        return [TurnSwitched(turn=turn), *deltas]
