"""LangChain: the chunks of its messages, whatever provider is behind them.

The pieces of a call are ``tool_call_chunks``, told apart as those of OpenAI Chat are. A chunk also
has ``tool_calls``, which are guesses at unfinished JSON, and pieces of the same calls in its
content, in the form of the provider: neither is read.

- Nothing closes a call but the end of its message: a stop reason in ``response_metadata``, in the
  words of the provider, or ``chunk_position="last"``, which says that the stream ended in order,
  but not why.
- A message that comes whole may be the sum of chunks that were cut: its last call may be a guess,
  unless its stop reason says that nothing was cut, or the tool was run with it.
- The id of a message changes on its way: what the provider names once (``resp_…``), LangChain calls
  by the id of its run (``lc_run-…``) ever after. So a message has one id of each kind, and several
  of the provider's if that counts its parts (``msg_…``, with ``output_version="v0"``).
- Usage comes in parts, which add up.
- A message comes bare, as a dict, serialised by ``dumps``, with metadata (LangGraph, its server),
  or inside an event of ``astream_events``. Nodes may run side by side, and models in one node.
"""

from collections.abc import Callable
from typing import Any, Final

from argstream.adapters._endings import ending_of
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
    reason_of,
    type_of,
    unwrapped,
)
from argstream.adapters._payloads import count, refuse_duplicate_keys, text_of, total
from argstream.adapters._strands import Strands
from argstream.adapters._tool_calls import CallFinder, Entry, EntryFunction
from argstream.deltas import (
    CallClosed,
    CallOpened,
    CallResult,
    Delta,
    Ending,
    Tokens,
    TurnClosed,
    TurnEnded,
    TurnOpened,
    UsageReported,
)

__all__ = ["LangChainAdapter"]

_TEXT: Final = (bytes, bytearray, str)
_CONTAINERS: Final = (dict, list, tuple)


class LangChainAdapter:
    """LangChain's messages → deltas."""

    protocol = "langchain"

    def __init__(self) -> None:
        self._turns = Strands()
        self._messages: dict[str, _MessageState] = {}  # by all of their ids
        self._newest: dict[str, _MessageState] = {}  # by the run or node that writes it
        self._open: list[_MessageState] = []  # those that are streamed
        self._runless: dict[str, list[_MessageState]] = {}  # whose run is not known yet, by writer
        self._unproved: dict[str, _MessageState] = {}  # whole ones, by who wrote them
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

    def over(self) -> list[CallClosed]:
        """Give the close of those calls that are over."""
        return [closed for state in self._open for closed in state.calls.over()]

    def close(self) -> list[Delta]:
        """Say that nothing more comes."""
        deltas: list[Delta] = []
        for state in list(self._open):
            deltas += self._over(state) if state.ended else self._flush(state)
        for writer in list(self._unproved):
            deltas += self._disprove(writer)
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
        if message.response_metadata and (reason := reason_of(message.response_metadata)):
            state.end(reason, deltas)
        if state.number != self._turns.speaking:
            deltas = self._say(state, deltas)
        if message.chunk_position == "last":
            deltas += self._over(state)
        return before + deltas if before else deltas

    def _read_whole(self, message: WholeMessage, writer: str, payload: object) -> list[Delta]:
        if message.type == "tool":
            return self._result(message)
        if message.type != "ai" or text_of(message.id) in self._messages:
            return []  # a prompt; or what has been streamed, once more
        calls: list[WholeCall] = []
        if not message.tool_call_chunks:
            # The last one may be a guess, and of those that are invalid none is.
            calls = [*(message.invalid_tool_calls or ()), *(message.tool_calls or ())]
        if calls and all(call.id in self._owners for call in calls):
            return []  # the same, in a message that somebody made of it
        state, before = self._new(message, writer)
        state.over = True
        deltas: list[Delta] = []
        state.read(message, deltas)
        for call in calls:
            state.call(None, call, deltas)
        state.flush(deltas)
        self._own(state, deltas)
        if self._has_values:
            self._check_values(payload)
        reason = reason_of(message.response_metadata)
        if calls and ending_of(reason) == "unknown":
            deltas += state.calls.over()
            state.reason = reason
            self._unproved[writer] = state
            return before + self._say(state, deltas)
        state.end(reason, deltas)
        return before + self._say(state, deltas) + self._closed(state)

    def _find(self, message: Message, writer: str) -> "tuple[_MessageState | None, list[Delta]]":
        """Find the message that a chunk belongs to; with what must be said before, if it is new.

        There is none if the chunk says nothing, and comes after the end.
        """
        id_ = text_of(message.id)
        says = bool(message.tool_call_chunks or message.content)
        if id_ not in self._messages:
            if found := self._unnamed(_kind_of(id_), writer, says=says):
                self._name(found, id_)
                return found, []
            is_late = not id_ and writer in self._newest
        else:
            is_late = True
        if is_late and not says:
            return None, []
        state, before = self._new(message, writer)
        self._open.append(state)
        if _kind_of(id_) != "run":
            self._runless.setdefault(writer, []).append(state)
        return state, before

    def _unnamed(self, kind: str, writer: str, *, says: bool) -> "_MessageState | None":
        """Find the message that an id of this kind, which is not known, can belong to."""
        if kind != "run":
            newest = self._newest.get(writer)
            return newest if newest and newest.may_be(kind, says=says) else None
        known = [one for one in self._runless.pop(writer, ()) if one.may_be(kind, says=False)]
        if not known:
            return None
        self._runless[writer] = known
        free = [state for state in known if state.may_be(kind, says=says)]
        # Runs begin to speak in the order in which they began; but one that ends has ended.
        return next((state for state in free if state.ended), free[0] if free else None)

    def _new(self, message: Message, writer: str) -> "tuple[_MessageState, list[Delta]]":
        before = self._disprove(writer)
        for state in [state for state in self._open if state.ended]:
            before += self._over(state)  # its usage could still come, but nobody waits for that
        self._count += 1
        id_ = text_of(message.id)
        metadata = message.response_metadata or {}
        model = text_of(metadata.get("model_name")) or text_of(metadata.get("model"))
        state = _MessageState(self._count, writer, TurnOpened(id_, model), self._saw_value)
        self._newest[writer] = state
        self._name(state, id_)
        return state, before

    def _name(self, state: "_MessageState", id_: str) -> None:
        if id_:
            state.kinds.append(_kind_of(id_))
            self._messages[id_] = state

    def _own(self, state: "_MessageState", deltas: list[Delta]) -> None:
        for delta in deltas:
            if isinstance(delta, CallOpened):
                state.last_call = delta.id
                if delta.id:
                    self._owners[delta.id] = state

    def _say(self, state: "_MessageState", deltas: list[Delta]) -> list[Delta]:
        """Say this of a message. Its turn begins with the first that is said of it."""
        return self._turns.say(state.number, state.opened(deltas)) if deltas else []

    def _flush(self, state: "_MessageState") -> list[Delta]:
        deltas: list[Delta] = []
        state.flush(deltas)
        return self._say(state, deltas)

    def _over(self, state: "_MessageState", ending: Ending | None = None) -> list[Delta]:
        """Say that nothing more comes of a message that was streamed."""
        if state.over:
            return []
        state.over = True
        self._open.remove(state)
        return self._closed(state, ending)

    def _closed(self, state: "_MessageState", ending: Ending | None = None) -> list[Delta]:
        deltas: list[Delta] = []
        if not state.ended:
            state.end(state.reason, deltas, ending)
        self._own(state, deltas)
        deltas.append(TurnClosed())
        return self._turns.say_last(state.number, state.opened(deltas))

    def _disprove(self, writer: str) -> list[Delta]:
        """Say of a whole message that nothing shows that its last call is no guess."""
        state = self._unproved.pop(writer, None)
        return [] if state is None else self._closed(state, "cut")

    def _result(self, message: WholeMessage) -> list[Delta]:
        """Take what came of a call. Tools are run when the message that calls them is whole."""
        call_id = message.tool_call_id or ""
        failed = message.status == "error"
        ending: Ending = "cut" if failed else "finished"
        deltas: list[Delta] = []
        owner = self._owners.pop(call_id, None)  # its id may be that of another call from now on
        if owner is not None and self._unproved.get(owner.writer) is owner:
            if call_id == owner.last_call:
                del self._unproved[owner.writer]
                deltas = self._closed(owner, ending)
        elif owner is not None:
            deltas = self._over(owner, ending)
        return deltas + self._turns.say_between([CallResult(call_id, message.content, failed)])

    def _saw_value(self) -> None:
        self._has_values = True

    def _check_values(self, payload: object) -> None:
        self._has_values = False
        refuse_duplicate_keys(payload)


class _MessageState:
    """One message while it is written."""

    def __init__(
        self, number: int, writer: str, opening: TurnOpened, saw_value: Callable[[], None]
    ) -> None:
        self.number = number
        self.writer = writer
        self.calls = CallFinder(0, saw_value)
        self.last_call = ""  # its id
        self.kinds: list[str] = []  # of its ids
        self.reason: str | None = None
        self.ended = False  # whether it was said why
        self.over = False
        self.tokens = Tokens()
        self._opening: TurnOpened | None = opening
        self._content = ContentReader(saw_value)
        self._indexes: dict[str, int] = {}

    def opened(self, deltas: list[Delta]) -> list[Delta]:
        """Put before the first that is said that the turn begins."""
        opening, self._opening = self._opening, None
        return deltas if opening is None else [opening, *deltas]

    def may_be(self, kind: str, *, says: bool) -> bool:
        """Say whether a chunk with an id of this kind that is not known can belong to this."""
        if self.over or (self.ended and says):
            return False
        if kind == "run" and says and self.calls.count:
            return False  # it speaks under its own id
        # A message that goes by its run may have parts with ids, which say nothing under these.
        is_part = kind == "own" and not says and self.kinds[:1] == ["run"]
        return kind not in self.kinds or is_part

    def read(self, message: Message, deltas: list[Delta]) -> None:
        """Take what is new."""
        content, reader = message.content, self._content
        if message.additional_kwargs:
            thought = message.additional_kwargs.get("reasoning_content")
            if isinstance(thought, str) and thought:
                reader.thought(thought, deltas)
            outputs = message.additional_kwargs.get("tool_outputs")  # of OpenAI, as of old
            if isinstance(outputs, list):
                reader.blocks(outputs, deltas)
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
            deltas.append(UsageReported(self.tokens))

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
        ending = ending or ending_of(reason)
        if ending == "cut":
            deltas += self.calls.over()
        deltas.append(TurnEnded(reason, ending))

    def _add(self, usage: dict[str, Any]) -> None:
        part = Tokens(
            input_tokens=count(usage, "input_tokens"),
            output_tokens=count(usage, "output_tokens"),
            cache_read_tokens=count(usage, "input_token_details", "cache_read"),
            cache_write_tokens=count(usage, "input_token_details", "cache_creation"),
            reasoning_tokens=count(usage, "output_token_details", "reasoning"),
        )
        self.tokens = Tokens(*map(total, self.tokens, part))


def _kind_of(id_: str) -> str:
    if not id_:
        return ""
    return "run" if id_.startswith(("lc_run-", "run-")) else "own"
