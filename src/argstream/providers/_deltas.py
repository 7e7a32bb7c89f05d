"""Deltas: the normalised form of provider data, passed from decoders to assembly.

A decoder translates each payload of its protocol into deltas, in the provider's order, and adds
nothing. Calls and blocks are identified by the provider's own key, which is valid until the next
``TurnOpened``. Assembly handles IDs, verdicts and JSON. Decoders import this module as ``d``, which
tells deltas apart from the structs of their protocol.
"""

from collections.abc import Hashable, Mapping
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from argstream.history import CallKind

FREE_TEXT_KINDS: Final[frozenset[CallKind]] = frozenset({"custom", "code"})

RUN_BY_PROVIDER: Final[frozenset[CallKind]] = frozenset({"server", "mcp", "code"})
"""Calls that the provider runs itself. It also sends their results."""

Ending: TypeAlias = Literal["finished", "cut", "unknown"]
"""Whether the calls before a stop reason are complete: all are, one may be cut, or not known."""


class Tokens(NamedTuple):
    """Token counts as the provider reported them. None: the provider did not report this count."""

    input_tokens: int | None = None  # including tokens read from or written to a cache
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class TurnSwitched(NamedTuple):
    """The following deltas belong to another turn, which has its own keys.

    Turns are parallel if several agents run, or if one agent writes several turns at once.
    """

    parent_id: str | None = None  # the call that started the agent; None for the main agent
    turn: Hashable = None  # distinguishes parallel turns of one agent


class TurnOpened(NamedTuple):
    """A message of the model begins. Keys of earlier messages are no longer valid."""

    id: str = ""
    model: str = ""


class TextPiece(NamedTuple):
    block: Hashable
    text: str


class ThinkingOpened(NamedTuple):
    block: Hashable


class ThinkingPiece(NamedTuple):
    """A piece of thinking. Opens the block if it is not open."""

    block: Hashable
    text: str


class ThinkingClosed(NamedTuple):
    block: Hashable


class BlockCompleted(NamedTuple):
    """The whole text of a block, sent at its end. Text that did not arrive as pieces is new."""

    block: Hashable
    text: str
    is_thinking: bool = False


class CallOpened(NamedTuple):
    """The model calls a tool. An empty ID means that the provider sent none."""

    key: Hashable
    id: str
    name: str
    kind: CallKind = "function"
    may_be_renamed: bool = False  # whether a ``CallRenamed`` may follow


class CallRenamed(NamedTuple):
    key: Hashable
    name: str  # the whole name


class ArgumentText(NamedTuple):
    key: Hashable
    text: str


class ArgumentValue(NamedTuple):
    """The arguments, or a part of them, as a value instead of text.

    Parts arrive in any order, each once. An object or an array exists if one of its parts arrived,
    or if it arrived as a value itself.
    """

    key: Hashable
    path: tuple[str | int, ...]  # keys and indexes; empty for all of the arguments
    value: object
    more: bool = False  # a piece of a string; the next value at the same path continues it


class CallClosed(NamedTuple):
    key: Hashable
    text: str | None = None  # the whole text of the arguments, if the provider repeated it
    cut: bool = False  # whether the provider reported that the call is unfinished


class CallResult(NamedTuple):
    """The result of a call that the provider ran itself."""

    call_id: str
    result: object
    failed: bool = False
    block: Hashable = None  # the block of the result, if it has its own


class Opaque(NamedTuple):
    """The provider's own form of a block, which must be sent back unchanged."""

    block: Hashable
    item: Mapping[str, object]


class TurnEnded(NamedTuple):
    stop_reason: str | None
    ending: Ending
    scope: Hashable = None  # if set, only calls whose key is a tuple that begins with it have ended


class UsageReported(NamedTuple):
    """The cumulative usage of the open turn. None leaves a count unchanged."""

    tokens: Tokens


class TurnClosed(NamedTuple):
    """The turn has ended. Its usage was reported before."""


class RunEnded(NamedTuple):
    """An agent that runs its own turns has finished its last one."""

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
    """Decodes the payloads of one protocol."""

    protocol: str

    def feed(self, payload: object, event: str = "") -> list[Delta]:
        """Return the deltas of one payload; raise ``UnreadableError`` if it is not a payload."""

    def interrupt(self) -> list[Delta]:
        """Return the buffered deltas after a payload was lost, so that open calls can be ended."""
        return []

    def close(self) -> list[Delta]:
        """Return the deltas that are known only at the end of the stream."""
        return []

    def implicit_closes(self) -> list[CallClosed]:
        """Return closes of calls before the last one, if the protocol does not mark their ends."""
        return []


BlockKey: TypeAlias = tuple[Hashable, int]


class Blocks:
    """The blocks of a message that does not mark them: a block ends when another one begins."""

    def __init__(self, scope: Hashable = None) -> None:
        self.kind = ""  # of the open block; empty if no block is open
        self.key: BlockKey = (scope, 0)
        self._part: Hashable = None

    def key_for(self, kind: str, deltas: list[Delta], part: Hashable = None) -> BlockKey:
        """Return the key of the open block if it has this kind, or of a new one.

        ``part`` is the provider's own key, if it has one.
        """
        is_open = kind == self.kind and part == self._part
        return self.key if is_open else self.begin(kind, deltas, part)

    def begin(self, kind: str, deltas: list[Delta], part: Hashable = None) -> BlockKey:
        self.end(deltas)
        self.kind, self._part = kind, part
        self.key = (self.key[0], self.key[1] + 1)
        return self.key

    def append_text(self, text: str, kind: str, deltas: list[Delta]) -> None:
        piece = ThinkingPiece if kind == "thinking" else TextPiece
        deltas.append(piece(self.key_for(kind, deltas), text))

    def end(self, deltas: list[Delta]) -> None:
        if self.kind == "thinking":
            deltas.append(ThinkingClosed(self.key))
        self.kind = ""


class ParallelTurns:
    """Turns that are open at the same time in one stream, such as those of the nodes of a graph."""

    def __init__(self) -> None:
        self.current: Hashable = None
        self._open: dict[Hashable, None] = {}  # an ordered set

    @property
    def oldest(self) -> Hashable:
        """The turn that was opened first of the open ones; None if no turn is open."""
        return next(iter(self._open), None)

    def emit(self, turn: Hashable, deltas: list[Delta]) -> list[Delta]:
        """Mark a turn as open and return its deltas."""
        self._open[turn] = None
        return self.switch_to(turn, deltas)

    def emit_last(self, turn: Hashable, deltas: list[Delta]) -> list[Delta]:
        self._open.pop(turn, None)
        return self.switch_to(turn, deltas)

    def switch_to(self, turn: Hashable, deltas: list[Delta]) -> list[Delta]:
        """Return the deltas, after a ``TurnSwitched`` if needed. None: they belong to no turn."""
        if turn == self.current or not deltas:
            return deltas
        self.current = turn
        return [TurnSwitched(turn=turn), *deltas]
