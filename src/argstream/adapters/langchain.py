"""LangChain: the chunks of its messages, whatever provider is behind them.

The pieces of a call are ``tool_call_chunks``, told apart as those of OpenAI Chat are. A chunk also
has ``tool_calls``, which are guesses at unfinished JSON, and pieces of the same calls in its
content, in the form of the provider: neither is read.

- Nothing closes a call but the end of its message: a stop reason in ``response_metadata``, in the
  words of the provider, or ``chunk_position="last"``, which says that the stream ended in order,
  but not why.
- The id of a message changes on its way: what the provider names once (``resp_…``), LangChain calls
  by the id of its run (``lc_run-…``) ever after. So a message has one id of each kind.
- Usage comes in parts, which add up.
- A message comes bare, as a dict, serialised by ``dumps``, with metadata (LangGraph), or inside an
  event of ``astream_events``. Nodes may run side by side.
"""

from collections.abc import Callable
from typing import Any, Final

from argstream.adapters._langchain_content import ContentReader
from argstream.adapters._langchain_payloads import (
    CHUNK,
    CallPiece,
    Message,
    WholeCall,
    WholeMessage,
    read_chunk,
    read_line,
    read_whole,
    type_of,
    unwrapped,
)
from argstream.adapters._payloads import count, refuse_duplicate_keys, text_of
from argstream.adapters._strands import Strands
from argstream.adapters._tool_calls import CallFinder, Entry, EntryFunction
from argstream.deltas import (
    CallOpened,
    CallResult,
    Delta,
    Ending,
    Tokens,
    TurnClosed,
    TurnEnded,
    TurnOpened,
)

__all__ = ["LangChainAdapter"]

# In the words of OpenAI, Anthropic, Google, Bedrock, Cohere, Ollama and their like.
_ENDINGS: Final[dict[str, Ending]] = {
    **dict.fromkeys(
        (
            "stop",
            "tool_calls",
            "tool_call",
            "function_call",
            "tool_use",
            "end_turn",
            "stop_sequence",
            "pause_turn",
            "completed",
            "complete",
            "eos",
            "eos_token",
        ),
        "finished",
    ),
    **dict.fromkeys(
        (
            "length",
            "max_tokens",
            "max_output_tokens",
            "max_length",
            "model_length",
            "model_context_window_exceeded",
            "context_length_exceeded",
            "content_filter",
            "content_filtered",
            "guardrail_intervened",
            "refusal",
            "safety",
            "recitation",
            "blocklist",
            "prohibited_content",
            "spii",
            "language",
            "malformed_function_call",
            "malformed_tool_use",
            "malformed_model_output",
            "unexpected_tool_call",
            "insufficient_system_resource",
            "incomplete",
            "failed",
            "cancelled",
            "abort",
            "timeout",
            "network_error",
            "error",
        ),
        "cut",
    ),
}
_TEXT: Final = (bytes, bytearray, str)
_CONTAINERS: Final = (dict, list, tuple)
_REASONS: Final = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_TELLING: Final = {*_REASONS, "status"}
_NO_REASON: Final = {"", "null", "none", "finish_reason_unspecified"}
_STATUSES: Final = {"completed", "incomplete", "failed", "cancelled"}  # of OpenAI Responses


class LangChainAdapter:
    """LangChain's messages → deltas."""

    protocol = "langchain"

    def __init__(self) -> None:
        self._turns = Strands()
        self._messages: dict[str, _MessageState] = {}  # by all of their ids
        self._newest: dict[str, _MessageState] = {}  # by the run or node that writes it
        self._open: list[_MessageState] = []
        self._owners: dict[str, _MessageState] = {}  # by the ids of their calls
        self._count = 0
        self._has_values = False  # whether arguments came as an object

    def feed(self, payload: object, event: str = "") -> list[Delta]:  # noqa: ARG002 - as all
        """Take one payload: bytes, a dict, a message, or what LangGraph wraps around it."""
        given = payload
        if isinstance(payload, _TEXT):
            payload = read_line(payload)
            if isinstance(payload, Message):
                return self._read_chunk(payload, "", given)
        writer = ""
        is_end = False
        if isinstance(payload, _CONTAINERS):
            payload, writer, is_end = unwrapped(payload)
            if not type_of(payload):
                return []
        if is_end and writer in self._newest:
            return self._over(self._newest[writer])
        if type_of(payload) != CHUNK:
            return self._read_whole(read_whole(payload), writer, given)
        message = read_chunk(payload)
        if is_end:
            if known := self._messages.get(text_of(message.id)):
                return self._over(known)
            message.chunk_position = "last"
        return self._read_chunk(message, writer, given)

    def interrupt(self) -> list[Delta]:
        """Say that a payload was lost."""
        return [delta for state in self._open for delta in self._flush(state)]

    def close(self) -> list[Delta]:
        """Say that nothing more comes."""
        deltas: list[Delta] = []
        for state in list(self._open):
            deltas += self._over(state) if state.ended else self._flush(state)
        return deltas

    # Messages

    def _read_chunk(self, message: Message, writer: str, payload: object) -> list[Delta]:
        before: list[Delta] = []
        state = self._messages.get(message.id) if type(message.id) is str else None
        if state is None or state.over:
            state, before = self._find(message, writer)
            if state is None:
                return []
        deltas: list[Delta] = []
        known = state.calls.count
        state.read(message, deltas)
        if state.calls.count != known:
            state.ended = False  # what was said of the end did not mean these
            self._own(state, deltas)
        if self._has_values:
            self._check_values(payload)
        if message.response_metadata and (reason := _reason(message.response_metadata)):
            state.end(reason, deltas)
        if state.number != self._turns.speaking:
            deltas = self._turns.say(state.number, deltas)
        if message.chunk_position == "last":
            deltas += self._over(state)
        return before + deltas if before else deltas

    def _read_whole(self, message: WholeMessage, writer: str, payload: object) -> list[Delta]:
        if message.type == "tool":
            return self._result(message)
        if message.type != "ai" or text_of(message.id) in self._messages:
            return []  # a prompt; or what has been streamed, once more
        state, before = self._new(message, writer)
        deltas: list[Delta] = []
        state.read(message, deltas)
        for call in (*(message.tool_calls or ()), *(message.invalid_tool_calls or ())):
            state.call(None, call, deltas)
        self._own(state, deltas)
        if self._has_values:
            self._check_values(payload)
        state.end(_reason(message.response_metadata), deltas)
        return before + self._turns.say(state.number, deltas) + self._over(state)

    def _find(self, message: Message, writer: str) -> "tuple[_MessageState | None, list[Delta]]":
        """Find the message that a chunk belongs to; with what must be said before, if it is new.

        There is none if the chunk says nothing, and comes after the end.
        """
        id_ = text_of(message.id)
        says = bool(message.tool_call_chunks or message.content)
        newest = self._newest.get(writer)
        if id_ not in self._messages and newest is not None and not newest.over:
            if newest.may_be(id_, says=says):
                self._name(newest, id_)
                return newest, []
        elif not says and (id_ in self._messages or (newest is not None and not id_)):
            return None, []
        return self._new(message, writer)

    def _new(self, message: Message, writer: str) -> "tuple[_MessageState, list[Delta]]":
        before: list[Delta] = []
        for state in [state for state in self._open if state.ended]:
            before += self._over(state)  # its usage could still come, but nobody waits for that
        self._count += 1
        state = _MessageState(self._count, self._saw_value)
        self._open.append(state)
        self._newest[writer] = state
        id_ = text_of(message.id)
        self._name(state, id_)
        metadata = message.response_metadata or {}
        model = text_of(metadata.get("model_name")) or text_of(metadata.get("model"))
        return state, before + self._turns.say(state.number, [TurnOpened(id_, model)])

    def _name(self, state: "_MessageState", id_: str) -> None:
        if id_:
            state.kinds.add(_kind_of(id_))
            self._messages[id_] = state

    def _own(self, state: "_MessageState", deltas: list[Delta]) -> None:
        for delta in deltas:
            if isinstance(delta, CallOpened) and delta.id:
                self._owners[delta.id] = state

    def _flush(self, state: "_MessageState") -> list[Delta]:
        deltas: list[Delta] = []
        state.flush(deltas)
        return self._turns.say(state.number, deltas) if deltas else []

    def _over(self, state: "_MessageState") -> list[Delta]:
        """Say that nothing more comes of a message."""
        if state.over:
            return []
        state.over = True
        self._open.remove(state)
        deltas: list[Delta] = []
        if not state.ended:
            state.end(None, deltas)
        self._own(state, deltas)
        deltas.append(TurnClosed(state.tokens))
        return self._turns.say_last(state.number, deltas)

    def _result(self, message: WholeMessage) -> list[Delta]:
        """Take what came of a call. Tools are run when the message that calls them is whole."""
        call_id = message.tool_call_id or ""
        deltas: list[Delta] = []
        owner = self._owners.get(call_id)
        if owner is not None and not owner.over:
            if not owner.ended:
                owner.end(None, deltas, "finished")
                deltas = self._turns.say(owner.number, deltas)
            deltas += self._over(owner)
        failed = message.status == "error"
        return deltas + self._turns.say_between([CallResult(call_id, message.content, failed)])

    def _saw_value(self) -> None:
        self._has_values = True

    def _check_values(self, payload: object) -> None:
        self._has_values = False
        refuse_duplicate_keys(payload)


class _MessageState:
    """One message while it is written."""

    def __init__(self, number: int, saw_value: Callable[[], None]) -> None:
        self.number = number
        self.calls = CallFinder(0, saw_value)
        self.kinds: set[str] = set()  # of its ids
        self.ended = False  # whether it was said why
        self.over = False
        self.tokens = Tokens()
        self._content = ContentReader()
        self._indexes: dict[str, int] = {}

    def may_be(self, id_: str, *, says: bool) -> bool:
        """Say whether a chunk with an id that is not known can belong to this message."""
        is_free = not id_ or _kind_of(id_) not in self.kinds
        return is_free and not (self.ended and says)

    def read(self, message: Message, deltas: list[Delta]) -> None:
        """Take what is new."""
        content, reader = message.content, self._content
        if message.additional_kwargs:
            thought = message.additional_kwargs.get("reasoning_content")
            if isinstance(thought, str) and thought:
                reader.thought(thought, deltas)
        if content:
            if isinstance(content, str):
                reader.text(content, deltas)
            else:
                reader.blocks(content, deltas)
        if message.tool_call_chunks:
            reader.end_block(deltas)
            for chunk in message.tool_call_chunks:
                self.call(chunk.index, chunk, deltas)
        if message.usage_metadata:
            self._add(message.usage_metadata)

    def call(
        self, index: int | str | None, piece: CallPiece | WholeCall, deltas: list[Delta]
    ) -> None:
        """Take a piece of a call."""
        if isinstance(index, str):
            # As a number it may be written either way; else it is only a name (``lc_tc_1``).
            given = index
            index = self._indexes.get(given)
            if index is None:
                index = int(given) if given.isdecimal() else -1 - len(self._indexes)
                self._indexes[given] = index
        function = EntryFunction(piece.name, piece.args)
        self.calls.read(Entry(index, piece.id, None, function), deltas)

    def flush(self, deltas: list[Delta]) -> None:
        """Give what was held back, and end what goes on."""
        self._content.end_block(deltas)
        self.calls.flush(deltas)

    def end(self, reason: str | None, deltas: list[Delta], ending: Ending | None = None) -> None:
        """End the calls, once; without a reason it is not known whether something was cut."""
        self.flush(deltas)
        if self.ended:
            return
        self.ended = True
        ending = ending or _ENDINGS.get((reason or "").lower(), "unknown")
        if ending == "cut":
            self.calls.close_all_but_the_last(deltas)
        deltas.append(TurnEnded(reason, ending))

    def _add(self, usage: dict[str, Any]) -> None:
        part = Tokens(
            input_tokens=count(usage, "input_tokens"),
            output_tokens=count(usage, "output_tokens"),
            cache_read_tokens=count(usage, "input_token_details", "cache_read"),
            cache_write_tokens=count(usage, "input_token_details", "cache_creation"),
            reasoning_tokens=count(usage, "output_token_details", "reasoning"),
        )
        self.tokens = Tokens(*(known + more for known, more in zip(self.tokens, part, strict=True)))


def _kind_of(id_: str) -> str:
    return "run" if id_.startswith(("lc_run-", "run-")) else "own"


def _reason(metadata: dict[str, Any] | None) -> str | None:
    """Give the reason why a message ended, in the words of its provider."""
    if not metadata or _TELLING.isdisjoint(metadata):
        return None
    for name in _REASONS:
        reason = metadata.get(name)
        if isinstance(reason, str) and reason.lower() not in _NO_REASON:
            return reason
    status = metadata.get("status")
    if not isinstance(status, str) or status not in _STATUSES:
        return None
    details = metadata.get("incomplete_details")
    return (text_of(details.get("reason")) if isinstance(details, dict) else "") or status
