"""OpenAI Realtime, also as Azure and xAI serve it: a session of events over a WebSocket.

The items are those of Responses, but ``item_id`` is the key: xAI counts each item as the first, and
its deltas of arguments have no ``output_index``. A session has many responses, and each is a turn.

- Every ``.done`` is also sent when the user has interrupted. So the arguments' own closes nothing;
  the item's does if its status is ``completed``, and else the end of the response decides.
- An ``error`` is mostly about something that the client sent, and the session goes on. It costs no
  call its verdict: it is told when no response is open, or when the stream ends.
- Responses outside the conversation can run beside another one.
- What a client sends as the result of a call is said back by the server: it completes the call.
"""

from typing import Any, Final

from msgspec import Struct

from argstream.adapters._openai_items import (
    CALLS,
    CUT,
    THINKING_DELTAS,
    call_id_of,
    check_input,
    failure,
    id_of,
    item_done,
    kept_of_call,
    result,
    tokens,
    turn_ended,
)
from argstream.adapters._payloads import PayloadReader, UnreadableError, text_of
from argstream.adapters._strands import Strands
from argstream.deltas import (
    ArgumentText,
    BlockSaid,
    CallClosed,
    CallOpened,
    CallResult,
    Delta,
    Opaque,
    ProviderFailed,
    TextPiece,
    ThinkingOpened,
    ThinkingPiece,
    TurnClosed,
    TurnOpened,
)

__all__ = ["OpenAIRealtimeAdapter"]


class _Response(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    status_details: Any = None  # xAI: the word "unimplemented"
    usage: dict[str, Any] | None = None
    output: list[dict[str, Any]] | None = None
    conversation_id: str | None = None


class _Session(Struct, gc=False):
    model: str | None = None


class _Happening(Struct, gc=False):
    """An event of the session."""

    type: str = ""
    item_id: str | None = None
    response_id: str | None = None
    delta: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    text: str | None = None
    transcript: str | None = None
    content_index: int | None = None
    item: dict[str, Any] | None = None
    response: _Response | None = None
    session: _Session | None = None
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    code: str | None = None
    message: str | None = None


# Each under its name of today and that of the beta, which Azure's Voice Live still uses.
_ARGUMENT_DELTAS: Final = {
    "response.function_call_arguments.delta",
    "response.mcp_call_arguments.delta",
}
_ARGUMENTS_DONE: Final = {
    "response.function_call_arguments.done",
    "response.mcp_call_arguments.done",
}
_TEXT_DELTAS: Final = {
    "response.output_text.delta",
    "response.text.delta",
    "response.output_audio_transcript.delta",
    "response.audio_transcript.delta",
}
_TEXT_DONE: Final = {
    "response.output_text.done",
    "response.text.done",
    "response.output_audio_transcript.done",
    "response.audio_transcript.done",
}
_CONVERSATION_ITEMS: Final = {
    "conversation.item.added",
    "conversation.item.created",
    "conversation.item.done",
}
_ITEM_CUT: Final = CUT - {"in_progress"}
_MCP_ENDS: Final = {"response.mcp_call.completed", "response.mcp_call.failed"}

_read = PayloadReader(
    _Happening,
    vital={"item_id", "delta", "arguments", "item", "response", "output"},
    known={
        *_ARGUMENT_DELTAS,
        *_ARGUMENTS_DONE,
        *_TEXT_DELTAS,
        *THINKING_DELTAS,
        "response.created",
        "response.output_item.added",
        "response.output_item.done",
        "response.done",
    },
)


class _Item:
    """An output item of a response that is not over."""

    __slots__ = ("call_id", "closed", "done", "failed", "pieces", "response_id", "text", "type")

    def __init__(self, response_id: str) -> None:
        self.response_id = response_id
        self.call_id = ""
        self.type = ""  # until it is said what it is
        self.pieces: list[str] = []  # that came before that
        self.text: str | None = None  # the whole input, said before the item is done
        self.done = False
        self.closed = False  # of a call
        self.failed = False  # of a call that the provider ran


class OpenAIRealtimeAdapter:
    """Events of a Realtime session → deltas."""

    protocol = "openai-realtime"

    def __init__(self) -> None:
        self._model = ""
        self._turns = Strands()
        self._items: dict[str, _Item] = {}  # of responses that are open
        self._conversations: dict[str, str] = {}  # of these responses
        self._over: set[str] = set()  # ids of responses
        self._call_ids: set[str] = set()
        self._errors: list[ProviderFailed] = []  # that wait for the end of a response

    def feed(self, payload: object, event: str = "") -> list[Delta]:  # noqa: ARG002 - as all
        """Take one payload: bytes, a dict, or an event of the SDK."""
        happening = _read(payload)
        if happening.type in _ARGUMENT_DELTAS:
            delta = happening.delta
            if delta is None or happening.item_id is None:
                raise UnreadableError("a piece of arguments without its text, or without its item")
            item = self._items.get(happening.item_id)
            if item is not None and item.type and item.response_id == self._turns.speaking:
                return [ArgumentText(happening.item_id, delta)] if delta else []  # nearly always
        if happening.item is not None:
            check_input(happening.item, payload)
        return self._take_event(happening)

    def interrupt(self) -> list[Delta]:
        """Say that a payload was lost."""
        return []

    def close(self) -> list[Delta]:
        """Say that nothing more comes."""
        # What was said beside a response that never ended may be the reason why it did not.
        return [*self._errors]

    def _take_event(self, happening: _Happening) -> list[Delta]:
        type_ = happening.type
        if type_ == "response.created":
            return self._response_created(happening.response or _Response())
        if type_ == "response.done":
            return self._response_done(happening)
        if type_ in _CONVERSATION_ITEMS:
            results = self._result(happening.item or {})
            return self._answered(results) + self._turns.say_between(results)
        if type_ == "error":
            error = {"code": happening.code, "message": happening.message}
            return self._error(failure(happening.error or error))
        if happening.session is not None:
            self._model = happening.session.model or self._model
            return []
        key = happening.item_id or id_of(happening.item) or happening.call_id or ""
        known = self._items.get(key)
        response_id = happening.response_id or (known.response_id if known else "")
        if response_id in self._over:
            # What the provider runs may end after its response.
            return self._turns.say_between(self._result(happening.item or {}))
        response_id = response_id or self._any_open()
        deltas = self._read_item(key, happening, response_id)
        return self._turns.say(response_id, deltas) if deltas else []

    def _read_item(self, key: str, happening: _Happening, response_id: str) -> list[Delta]:
        type_, delta, item = happening.type, happening.delta, happening.item
        if type_ in _TEXT_DELTAS:
            return [TextPiece(key, delta)] if delta else []
        if type_ in THINKING_DELTAS:
            return [ThinkingPiece(key, delta)] if delta else []
        if type_ in _TEXT_DONE:
            text = happening.text or happening.transcript
            # Of a second part, the text alone cannot be told from another text for the block.
            return [BlockSaid(key, text)] if text and not happening.content_index else []
        if type_ in _ARGUMENT_DELTAS:
            return self._arguments(key, delta or "", response_id)
        if type_ in _ARGUMENTS_DONE:
            return self._arguments_done(key, happening, response_id)
        if type_ in _MCP_ENDS:
            return self._mcp_ended(key, failed=type_.endswith("failed"))
        if item is None:
            return []
        if type_ == "response.output_item.added":
            return self._item_added(key, item, response_id)
        if type_ == "response.output_item.done":
            return self._item_done(key, item, response_id)
        return []

    def _any_open(self) -> str:
        """Give the response to which an event belongs that does not tell."""
        return text_of(self._turns.oldest)

    # Responses

    def _response_created(self, response: _Response) -> list[Delta]:
        id_, conversation = response.id or "", response.conversation_id or ""
        deltas: list[Delta] = []
        live = self._any_open()
        if live and conversation and conversation == self._conversations.get(live):
            # A conversation has one response at a time, so that one will never be done.
            self._forget(live)
            message = "a new response began before this one had ended"
            deltas = self._turns.say_last(
                live, [ProviderFailed("truncated", message), TurnClosed()]
            )
        self._conversations[id_] = conversation
        return deltas + self._turns.say(id_, [TurnOpened(id_, response.model or self._model)])

    def _response_done(self, happening: _Happening) -> list[Delta]:
        response = happening.response
        if response is None:
            raise UnreadableError("the end of a response without the response")
        id_ = response.id or happening.response_id or self._any_open()
        if id_ in self._over:
            return []
        deltas: list[Delta] = []
        status = response.status or "unknown"
        for at, item in enumerate(response.output or []):
            key = id_of(item) or call_id_of(item) or f"{id_} {at}"
            deltas += self._item_done(key, item, id_)
        for key, open_ in list(self._items.items()):
            if open_.response_id == id_:
                if open_.pieces or (open_.text and not open_.type):
                    # Nobody said what these are of: told as a call without a name.
                    deltas += self._item_added(key, {"type": "function_call"}, id_)
                if status == "completed":
                    deltas += self._close(key, open_)
        details = response.status_details if isinstance(response.status_details, dict) else {}
        if status == "failed":
            deltas.append(self._failed(details.get("error")))
        else:
            deltas.append(turn_ended(status, details))
        # xAI tells what it cost beside the response.
        usage = response.usage or happening.usage or {}
        deltas = self._turns.say_last(id_, [*deltas, TurnClosed(tokens(usage))])
        self._forget(id_)
        if self._turns.oldest is None:
            deltas += self._errors
            self._errors = []
        return deltas

    def _forget(self, response_id: str) -> None:
        if response_id:
            self._over.add(response_id)
        self._conversations.pop(response_id, None)
        for key in [key for key, item in self._items.items() if item.response_id == response_id]:
            del self._items[key]

    def _failed(self, error: object) -> ProviderFailed:
        failed = failure(error if isinstance(error, dict) else {"code": "failed"})
        # It may have been said before, as an error of the session.
        self._errors = [other for other in self._errors if other.message != failed.message]
        return failed

    def _error(self, error: ProviderFailed) -> list[Delta]:
        if self._turns.oldest is None:
            return [error]
        self._errors.append(error)
        return []

    # Items

    def _item(self, key: str, response_id: str) -> _Item:
        if key not in self._items:
            self._items[key] = _Item(response_id)
        return self._items[key]

    def _item_added(self, key: str, item: dict[str, Any], response_id: str) -> list[Delta]:
        known = self._item(key, response_id)
        if known.type:
            return []
        known.type = text_of(item.get("type")) or "unknown"
        if known.type == "reasoning":
            return [ThinkingOpened(key)]
        if known.type not in CALLS:
            return []
        kind, field, tool = CALLS[known.type]
        given = item.get(field)
        if isinstance(given, str) and given:
            known.text = given
        id_ = call_id_of(item)
        self._call_ids.add(id_)
        known.call_id = id_
        pieces, known.pieces = known.pieces, []
        return [
            CallOpened(key, id_, tool or text_of(item.get("name")), kind),
            *(ArgumentText(key, piece) for piece in pieces),
        ]

    def _arguments(self, key: str, piece: str, response_id: str) -> list[Delta]:
        item = self._item(key, response_id)
        if item.type:
            return [ArgumentText(key, piece)] if piece else []
        item.pieces.append(piece)
        return []

    def _arguments_done(self, key: str, happening: _Happening, response_id: str) -> list[Delta]:
        item = self._item(key, response_id)
        deltas: list[Delta] = []
        if not item.type and happening.name:  # some servers send no items
            call = {"type": "function_call", "name": happening.name, "call_id": happening.call_id}
            deltas = self._item_added(key, call, response_id)
        # Whether it was cut is known when the item is done, or else the response.
        item.text = happening.arguments or item.text
        return deltas

    def _item_done(self, key: str, item: dict[str, Any], response_id: str) -> list[Delta]:
        """Take the last form of an item."""
        deltas = self._item_added(key, item, response_id)
        known = self._items[key]
        if known.type in CALLS:
            return deltas + self._call_done(key, known, item)
        if known.done:
            return deltas
        known.done = True
        return deltas + item_done(key, known.type, item)

    def _call_done(self, key: str, known: _Item, item: dict[str, Any]) -> list[Delta]:
        field = CALLS[known.type].input
        given = item.get(field)
        known.text = given if isinstance(given, str) and given else known.text
        deltas: list[Delta] = []
        if not known.done:
            known.done = True
            deltas.append(Opaque(key, kept_of_call(item, field)))
        results = result(item)
        if not results and known.failed:
            results = [CallResult(id_of(item) or key, "failed", failed=True)]
        status = text_of(item.get("status"))
        if status == "completed" or results:
            return [*deltas, *self._close(key, known), *results]
        if status in _ITEM_CUT and not known.closed:
            known.closed = True
            deltas.append(CallClosed(key, known.text, cut=True))
        return deltas  # else the end of the response decides

    def _close(self, key: str, item: _Item) -> list[Delta]:
        """Say that a call is over, once."""
        if item.closed or item.type not in CALLS:
            return []
        item.closed = True
        return [CallClosed(key, item.text)]

    def _answered(self, results: list[Delta]) -> list[Delta]:
        """Close the calls that were answered before their items were done: nobody has to wait."""
        ids = {delta.call_id for delta in results if isinstance(delta, CallResult)}
        deltas: list[Delta] = []
        for key, item in self._items.items():
            if item.call_id in ids and item.text is not None:
                deltas += self._turns.say(item.response_id, self._close(key, item))
        return deltas

    def _mcp_ended(self, key: str, *, failed: bool) -> list[Delta]:
        """Take note that the provider has run a call: so it was whole."""
        item = self._items.get(key)
        if item is None:
            return []
        item.failed = failed
        return self._close(key, item)

    def _result(self, item: dict[str, Any]) -> list[Delta]:
        """Give what came of a call of this session: somebody else's may be in its history."""
        match item:
            case {"type": "function_call_output", "call_id": str(id_), "output": output}:
                found = [CallResult(id_, output)]
            case _:
                found = result(item)
        return [known for known in found if known.call_id in self._call_ids]
