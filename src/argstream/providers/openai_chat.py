"""OpenAI Chat Completions, and the many servers that implement it differently.

The pieces of a call are entries of ``delta.tool_calls``. OpenAI gives each an index, and the first
one an ID and a name; other servers omit, repeat, change or split any of these. ``_tool_calls``
finds the call of an entry. Only the end of its choice closes a call.
"""

from itertools import groupby
from typing import Any, Final

from msgspec import Struct

from argstream.providers import _deltas as d
from argstream.providers._payloads import (
    PayloadReader,
    count,
    failure,
    fields_of,
    is_done,
    joined,
    text_of,
    texts_in,
)
from argstream.providers._stop_reasons import ending_of
from argstream.providers._tool_calls import CallFinder, Entry, EntryFunction

_NO_REASON: Final = {"null", "none"}
_NO_ENTRY: Final = Entry()  # an empty object instead of an empty list
_NO_CALLS: Final[tuple[object, ...]] = (None, [], _NO_ENTRY)
_GROWING: Final = {"text", "summary", "data"}  # fields of reasoning details that arrive in pieces


class _Message(Struct, gc=False):
    """The ``delta`` of a choice, or the ``message`` of one that was not streamed."""

    content: str | list[Any] | None = None
    tool_calls: list[Entry] | Entry | None = None  # some servers send one call as an object
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    function_call: EntryFunction | None = None


class _Choice(Struct, gc=False):
    index: int = 0
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    error: Any = None


class _Chunk(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class _StreamEvent(_Chunk, gc=False):
    """A chunk, or an event of the SDK's ``chat.completions.stream`` that has one."""

    chunk: _Chunk | None = None


_read = PayloadReader(
    _StreamEvent,
    vital="choices index delta message content tool_calls function arguments custom input "
    "function_call",
)


class OpenAIChatDecoder(d.ProviderDecoder):
    """Payloads of the Chat Completions API → deltas."""

    protocol = "openai-chat"

    def __init__(self) -> None:
        self._turn_id = ""
        self._has_finished = False
        self._choices: dict[int, _ChoiceState] = {}  # of the open turn; empty if none is open

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of one payload: bytes, a dict, or a chunk of the SDK."""
        data = _read(payload)
        if not data.choices and is_done(payload):
            return self._done()
        chunk = data.chunk or data
        deltas: list[d.Delta] = []
        if chunk.choices and (
            not self._choices
            or (self._has_finished and self._is_next_turn(chunk.id or "", chunk.choices[0]))
        ):
            deltas += self.close()
            self._turn_id = chunk.id or ""
            deltas.append(d.TurnOpened(self._turn_id, chunk.model or ""))
        elif not chunk.choices and chunk.error is None:
            fields = fields_of(payload)
            if "error" in (fields.get("type"), fields.get("object"), event):
                deltas.append(_failure(fields))  # the whole payload is the error
        for choice in chunk.choices or ():
            state = self._choices.get(choice.index)
            if state is None:
                state = self._choices[choice.index] = _ChoiceState(choice.index)
            if choice.delta is not None:
                state.has_deltas = True
                state.read(choice.delta, deltas)
            elif choice.message is not None and not state.has_deltas:
                # Some servers send everything twice, as deltas and as a message.
                state.read(choice.message, deltas)
            if choice.error:
                deltas.append(_failure(choice.error))
            if choice.finish_reason and choice.finish_reason.lower() not in _NO_REASON:
                self._has_finished = True
                state.finish(choice.finish_reason, choice.native_finish_reason, deltas)
        if chunk.usage and self._choices:
            deltas.append(d.UsageReported(_tokens(chunk.usage)))
        if chunk.error:
            deltas.append(_failure(chunk.error))
        for state in self._choices.values():
            if state.calls.has_values:
                state.calls.check_values(payload)
        return deltas

    def _is_next_turn(self, id_: str, choice: _Choice) -> bool:
        """Return True if a response with another ID begins after the end of this one."""
        state = self._choices.get(choice.index)
        return (
            state is not None
            and state.finished
            and id_ != self._turn_id
            and choice.delta is not None
            and bool(choice.delta.content or choice.delta.tool_calls not in _NO_CALLS)
        )

    def interrupt(self) -> list[d.Delta]:
        """Return the buffered deltas after a payload was lost."""
        deltas: list[d.Delta] = []
        for state in self._choices.values():
            state.flush(deltas)
        return deltas

    def implicit_closes(self) -> list[d.CallClosed]:
        """Return a close for each call that was followed by another call."""
        return [
            closed for state in self._choices.values() for closed in state.calls.implicit_closes()
        ]

    def close(self) -> list[d.Delta]:
        """End the turn: it was open because usage may follow the finish reason."""
        deltas: list[d.Delta] = []
        for state in self._choices.values():
            state.flush(deltas)
        if any(state.finished for state in self._choices.values()):
            deltas.append(d.TurnClosed())
        self._has_finished = False
        self._choices = {}
        return deltas

    def _done(self) -> list[d.Delta]:
        deltas: list[d.Delta] = []
        for state in self._choices.values():
            if not state.finished:
                state.finish(None, None, deltas)
        return deltas + self.close()


class _ChoiceState(d.Blocks):
    """The blocks and the calls of one choice."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.finished = False
        self.has_deltas = False
        self._index = index
        self.calls = CallFinder(index)
        self._details: list[dict[str, Any]] = []
        self._thinking_key: d.BlockKey | None = None  # key of the last thinking block
        self._field = ""  # the field that it came in

    def read(self, message: _Message, deltas: list[d.Delta]) -> None:
        thought, field = message.reasoning_content, "reasoning_content"
        if not thought:
            thought, field = message.reasoning, "reasoning"
        if message.reasoning_details:
            self._details += message.reasoning_details
            thought = thought or "".join(
                text_of(one.get("text")) or text_of(one.get("summary"))
                for one in message.reasoning_details
            )
        if thought:
            self._thinking_key = self.key_for("thinking", deltas)
            self._field = field
            deltas.append(d.ThinkingPiece(self._thinking_key, thought))
        text = message.content
        if text:
            if isinstance(text, str):
                deltas.append(d.TextPiece(self.key_for("text", deltas), text))
            else:
                self._read_parts(text, deltas)
        if message.refusal:
            deltas.append(d.TextPiece(self.key_for("text", deltas), message.refusal))
        entries = message.tool_calls
        if isinstance(entries, Entry):
            entries = None if entries == _NO_ENTRY else [entries]
        if entries:
            if self.kind:
                self.end(deltas)
            known = self.calls.count
            for entry in entries:
                self.calls.read(entry, deltas)
            if self.calls.count > known:
                self.finished = False  # the finish reason did not include the new calls
        elif message.function_call is not None:
            self.end(deltas)
            self.calls.read_legacy(message.function_call, deltas)

    def _read_parts(self, parts: list[Any], deltas: list[d.Delta]) -> None:
        """Mistral's reasoning models write content as a list."""
        for part in parts:
            match part:
                case {"type": "thinking", "thinking": [*thoughts]}:
                    if text := "".join(texts_in(thoughts)):
                        deltas.append(d.ThinkingPiece(self.key_for("thinking", deltas), text))
                case {"text": str(text)} if text:
                    deltas.append(d.TextPiece(self.key_for("text", deltas), text))

    def finish(self, reason: str | None, native: str | None, deltas: list[d.Delta]) -> None:
        self.flush(deltas)
        if self.finished:
            return  # repeated by a gateway
        self.finished = True
        ending = ending_of(reason)
        if ending_of(native) == "cut":
            # The reason of the gateway's provider. The gateway may have renamed it.
            ending = "cut"
        if ending == "cut":
            deltas += self.calls.implicit_closes()
        deltas.append(d.TurnEnded(reason, ending, self._index))

    def flush(self, deltas: list[d.Delta]) -> None:
        self.end(deltas)
        self.calls.flush(deltas)
        if self._details:
            item = {"reasoning_details": _merged(self._details)}
            deltas.append(d.Opaque(self._thinking_key or (self._index, "reasoning_details"), item))
            self._details = []

    def end(self, deltas: list[d.Delta]) -> None:
        if self._field and not self._details:  # which contain the text
            deltas.append(d.Opaque(self.key, {"field": self._field}))
        self._field = ""
        super().end(deltas)


def _merged(details: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the pieces of OpenRouter's reasoning details: one entry for each index and type."""
    entries = groupby(details, key=lambda detail: (detail.get("index"), detail.get("type")))
    return [joined(list(pieces), _GROWING) for _, pieces in entries]


def _failure(error: Any) -> d.ProviderFailed:
    failed = failure(error, "code", "type")
    if isinstance(error, dict) and (text := error.get("failed_generation")):
        # Groq rejected a call and repeats it here.
        return failed._replace(message=f"{failed.message} (model output: {text})")
    return failed


def _tokens(usage: dict[str, Any]) -> d.Tokens:
    return d.Tokens(
        input_tokens=count(usage, "prompt_tokens"),
        output_tokens=count(usage, "completion_tokens"),
        cache_read_tokens=count(usage, "prompt_tokens_details", "cached_tokens"),
        reasoning_tokens=count(usage, "completion_tokens_details", "reasoning_tokens"),
    )
