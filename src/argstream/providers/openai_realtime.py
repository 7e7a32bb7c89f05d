"""OpenAI Realtime, also from Azure and xAI: a session of events over a WebSocket.

The items are those of Responses, but ``item_id`` is the key: xAI gives each item the index 0, and
its argument deltas have no ``output_index``. A session has many responses, and each is a turn.

- A ``.done`` event is also sent after an interruption by the user. So the one of the arguments
  closes nothing. The one of the item closes the call if its status is ``completed``. Otherwise, the
  end of the response decides.
- An ``error`` is usually about a message of the client, and the session continues. It must not cut
  calls, so it is emitted when no response is open, or at the end of the stream.
- Responses outside the conversation can run in parallel to another one.
- The server echoes the results that a client sends. The echo completes the call.
"""

from typing import Any, Final

from msgspec import Struct

from argstream.providers import _deltas as d
from argstream.providers import _openai_items as items
from argstream.providers._payloads import PayloadReader, UnreadableError, failure, text_of

_CUT: Final = items.CUT - {"in_progress"}
# Current names and names of the beta, which Azure's Voice Live still uses.
_TEXT_DELTAS: Final = {
    "response.output_text.delta",
    "response.text.delta",
    "response.output_audio_transcript.delta",
    "response.audio_transcript.delta",
}
_TEXT_DONE: Final = {name.replace(".delta", ".done") for name in _TEXT_DELTAS}
_CONVERSATION_ITEMS: Final = {
    "conversation.item.added",
    "conversation.item.created",
    "conversation.item.done",
}


class _Response(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    status_details: Any = None  # xAI: the word "unimplemented"
    usage: dict[str, Any] | None = None
    output: list[dict[str, Any]] | None = None
    conversation_id: str | None = None


class _StreamEvent(Struct, gc=False):
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
    session: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    code: str | None = None
    message: str | None = None


_read = PayloadReader(
    _StreamEvent,
    vital="item_id delta arguments item response output",
    known_types=items.KNOWN_TYPES | _TEXT_DELTAS | {"response.done"},
)


class OpenAIRealtimeDecoder(d.ProviderDecoder):
    """Events of a Realtime session → deltas."""

    protocol = "openai-realtime"

    def __init__(self) -> None:
        self._model = ""
        self._turns = d.ParallelTurns()
        self._items: dict[str, _Item] = {}  # of open responses
        self._conversations: dict[str, str] = {}  # by open response
        self._ended: set[str] = set()  # response IDs
        self._call_ids: set[str] = set()
        self._errors: list[d.ProviderFailed] = []  # delayed until no response is open

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of one payload: bytes, a dict, or an event of the SDK."""
        data = _read(payload)
        if data.type in items.ARGUMENT_DELTAS:
            delta = data.delta
            if delta is None or data.item_id is None:
                raise UnreadableError("argument delta has no text or no item_id")
            item = self._items.get(data.item_id)
            if item is not None and item.type and item.response_id == self._turns.current:
                return [d.ArgumentText(data.item_id, delta)] if delta else []  # nearly always
        if data.item is not None:
            items.check_input(data.item, payload)
        return self._read_event(data)

    def close(self) -> list[d.Delta]:
        """Return the deltas that are known only at the end of the stream."""
        # An error may be the reason why a response never ended.
        return [*self._errors]

    def _read_event(self, data: _StreamEvent) -> list[d.Delta]:
        type_ = data.type
        if type_ == "response.created":
            return self._response_created(data.response or _Response())
        if type_ == "response.done":
            return self._response_done(data)
        if type_ in _CONVERSATION_ITEMS:
            results = self._result(data.item or {})
            return self._answered(results) + self._turns.switch_to(None, results)
        if type_ == "error":
            error = {"code": data.code, "message": data.message}
            return self._error(failure(data.error or error, "code", "type"))
        if data.session is not None:
            self._model = text_of(data.session.get("model")) or self._model
            return []
        key = data.item_id or items.id_of(data.item) or data.call_id or ""
        known = self._items.get(key)
        response_id = data.response_id or (known.response_id if known else "")
        if response_id in self._ended:
            # A call that the provider runs may end after its response.
            return self._turns.switch_to(None, self._result(data.item or {}))
        response_id = response_id or self._oldest_open()
        deltas = self._read_item(key, data, response_id)
        return self._emit(response_id, deltas)

    def _read_item(self, key: str, data: _StreamEvent, response_id: str) -> list[d.Delta]:
        type_, delta = data.type, data.delta
        if type_ in _TEXT_DELTAS:
            return [d.TextPiece(key, delta)] if delta else []
        if type_ in items.THINKING_DELTAS:
            return [d.ThinkingPiece(key, delta)] if delta else []
        if type_ in _TEXT_DONE:
            text = data.text or data.transcript
            # The text of a later part would contradict the text of the whole block.
            return [d.BlockCompleted(key, text)] if text and not data.content_index else []
        if type_ in ("response.mcp_call.completed", "response.mcp_call.failed"):
            known = self._items.get(key)
            if known is None:
                return []
            known.has_failed = type_.endswith("failed")
            return known.close()  # the provider executed it, so it was complete
        if type_ in items.ARGUMENT_DELTAS:
            return self._item(key, response_id).append_arguments(delta or "")
        if type_ in items.ARGUMENTS_DONE:
            item = self._item(key, response_id)
            return item.end_arguments(data.name, data.call_id, data.arguments)
        if type_ == "response.output_item.added" and data.item is not None:
            return self._item(key, response_id).begin(data.item)
        if type_ == "response.output_item.done" and data.item is not None:
            return self._item(key, response_id).end(data.item)
        return []

    def _item(self, key: str, response_id: str) -> "_Item":
        if key not in self._items:
            self._items[key] = _Item(key, response_id=response_id)
        return self._items[key]

    def _emit(self, response_id: str, deltas: list[d.Delta]) -> list[d.Delta]:
        self._call_ids.update(delta.id for delta in deltas if isinstance(delta, d.CallOpened))
        return self._turns.emit(response_id, deltas) if deltas else []

    def _oldest_open(self) -> str:
        """Return the response of an event that has no response ID."""
        return text_of(self._turns.oldest)

    def _response_created(self, response: _Response) -> list[d.Delta]:
        id_, conversation = response.id or "", response.conversation_id or ""
        deltas: list[d.Delta] = []
        open_id = self._oldest_open()
        is_unnamed = self._turns.oldest == "" and id_ != ""
        if is_unnamed or (conversation and conversation == self._conversations.get(open_id)):
            # A conversation has one response at a time, so the older one will never end. Nor will
            # one without an ID: what follows belongs to the new one.
            self._forget(open_id)
            message = "a new response began before this one had ended"
            deltas = self._turns.emit_last(
                open_id, [d.ProviderFailed("truncated", message), d.TurnClosed()]
            )
        self._conversations[id_] = conversation
        return deltas + self._turns.emit(id_, [d.TurnOpened(id_, response.model or self._model)])

    def _response_done(self, data: _StreamEvent) -> list[d.Delta]:
        response = data.response
        if response is None:
            raise UnreadableError("response.done has no response")
        id_ = response.id or data.response_id or self._oldest_open()
        if id_ in self._ended:
            return []
        deltas: list[d.Delta] = []
        status = response.status or "unknown"
        for at, item in enumerate(response.output or []):
            key = items.id_of(item) or items.call_id_of(item) or f"{id_} {at}"
            deltas += self._item(key, id_).end(item)
        for known in self._items.values():
            if known.response_id == id_:
                if not known.type and (known.pieces or known.text):  # a call without a name
                    deltas += known.begin({"type": "function_call"})
                if status == "completed":
                    deltas += known.close()
        details = response.status_details if isinstance(response.status_details, dict) else {}
        if status == "failed":
            deltas.append(self._failed(details.get("error")))
        else:
            deltas.append(items.turn_ended(status, details))
        # xAI sends usage beside the response.
        usage = response.usage or data.usage or {}
        deltas = self._emit(id_, deltas)
        deltas += self._turns.emit_last(id_, [d.UsageReported(items.tokens(usage)), d.TurnClosed()])
        self._forget(id_)
        if self._turns.oldest is None:
            deltas += self._errors
            self._errors = []
        return deltas

    def _forget(self, response_id: str) -> None:
        if response_id:
            self._ended.add(response_id)
        self._conversations.pop(response_id, None)
        for key in [key for key, item in self._items.items() if item.response_id == response_id]:
            del self._items[key]

    def _failed(self, error: object) -> d.ProviderFailed:
        failed = failure(error if isinstance(error, dict) else {"code": "failed"}, "code", "type")
        # It may have arrived before, as an error of the session.
        self._errors = [other for other in self._errors if other.message != failed.message]
        return failed

    def _error(self, error: d.ProviderFailed) -> list[d.Delta]:
        if self._turns.oldest is None:
            return [error]
        self._errors.append(error)
        return []

    def _answered(self, results: list[d.Delta]) -> list[d.Delta]:
        """Close the calls that were answered before their items were done.

        A call without arguments could not be executed, so it is closed as cut.
        """
        ids = {delta.call_id for delta in results if isinstance(delta, d.CallResult)}
        deltas: list[d.Delta] = []
        for item in self._items.values():
            if item.call_id in ids:
                closed = item.close(is_cut=item.text is None)
                deltas += self._turns.emit(item.response_id, closed)
        return deltas

    def _result(self, item: dict[str, Any]) -> list[d.Delta]:
        """Return the result of a call of this session. Its history may have other results."""
        match item:
            case {"type": "function_call_output", "call_id": str(id_), "output": output}:
                found = [d.CallResult(id_, output)]
            case _:
                found = items.result(item)
        return [known for known in found if known.call_id in self._call_ids]


class _Item(items.Item, eq=False):
    response_id: str = ""
    _is_closed: bool = False  # for calls
    has_failed: bool = False  # for calls that the provider ran

    def end(self, item: dict[str, Any]) -> list[d.Delta]:
        deltas = self.begin(item)
        if self.type in items.CALLS:
            return deltas + self._end_call(item)
        if self.is_done:
            return deltas
        self.is_done = True
        return deltas + items.item_done(self.key, self.type, item)

    def close(self, *, is_cut: bool = False) -> list[d.Delta]:
        if self._is_closed or self.type not in items.CALLS:
            return []
        self._is_closed = True
        return [d.CallClosed(self.key, self.text, is_cut)]

    def _end_call(self, item: dict[str, Any]) -> list[d.Delta]:
        kept = self.take_input(item)
        deltas: list[d.Delta] = [] if self.is_done else [kept]
        self.is_done = True
        results = items.result(item)
        if not results and self.has_failed:
            results = [d.CallResult(items.id_of(item) or str(self.key), "failed", failed=True)]
        status = text_of(item.get("status"))
        if status == "completed" or results:
            return [*deltas, *self.close(), *results]
        if status in _CUT:
            deltas += self.close(is_cut=True)
        return deltas  # otherwise, the end of the response decides
