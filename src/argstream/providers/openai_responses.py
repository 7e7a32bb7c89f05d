"""OpenAI Responses, also from Azure, xAI, DeepSeek, LM Studio and others.

A turn is a list of output items, and ``output_index`` is the key: the ID of an item can change with
every event (Copilot). An item is added, grows by deltas, and is done; the last event repeats the
whole item. Deltas may be missing (LM Studio) or stop early. The whole item then has the rest.

Over a WebSocket, several responses can be written at the same time. Each event then has the
``stream_id`` of its lane, and each lane has its own turns.
"""

from typing import Any, Final, TypeAlias

from msgspec import Struct, field

from argstream.providers import _deltas as d
from argstream.providers import _openai_items as items
from argstream.providers._payloads import PayloadReader, failure, text_of, without


class _Response(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    error: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    output: list[dict[str, Any]] | None = None


class _StreamEvent(_Response, gc=False):
    """An event of the stream. A response that was not streamed has the fields of one."""

    type: str = ""
    output_index: int | None = None
    item_id: str | None = None
    delta: str | None = None
    arguments: str | None = None
    input: str | None = None
    code: str | None = None
    name: str | None = None
    item: dict[str, Any] | None = None
    response: _Response | None = None
    summary_index: int | None = None
    message: str | None = None
    object: str | None = None
    command: str | None = None
    command_index: int | None = None
    stream_id: str | None = None


_TEXT_DELTAS: Final = {"response.output_text.delta", "response.refusal.delta"}
_DIFF_DELTA: Final = "response.apply_patch_call_operation_diff.delta"
_COMMAND_ADDED: Final = "response.shell_call_command.added"
_COMMAND_DELTA: Final = "response.shell_call_command.delta"
_COMMAND_DONE: Final = "response.shell_call_command.done"
_COMMANDS: Final = {_COMMAND_ADDED, _COMMAND_DELTA, _COMMAND_DONE}
_ENDS: Final = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}

_read = PayloadReader(
    _StreamEvent,
    vital="output_index delta arguments input item response output command command_index",
    known_types={*items.KNOWN_TYPES, *_TEXT_DELTAS, *_ENDS, *_COMMANDS, _DIFF_DELTA},
)

_Key: TypeAlias = int | str


class _Item(items.Item, eq=False):
    has_diff: bool = False  # whether pieces of a patch arrived
    # Of a shell: the characters sent of each command; -1 if it is complete.
    commands: dict[int, int] = field(default_factory=dict)


class OpenAIResponsesDecoder(d.ProviderDecoder):
    """Payloads of the Responses API → deltas."""

    protocol = "openai-responses"

    def __init__(self) -> None:
        self._lane = _Lane(None)  # lane of the last event
        self._lanes: dict[str | None, _Lane] = {None: self._lane}

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas for one payload: bytes, a dict, or an event of the SDK."""
        data = _read(payload)
        if data.item is not None:
            items.check_input(data.item, payload)
        stream_id = data.stream_id
        if stream_id == self._lane.stream_id:
            return self._lane.feed(data, event)
        if stream_id not in self._lanes:
            self._lanes[stream_id] = _Lane(stream_id)
        self._lane = self._lanes[stream_id]
        return [d.TurnSwitched(turn=stream_id), *self._lane.feed(data, event)]


class _Lane:
    """The open response of one lane. Without WebSockets there is only one lane."""

    def __init__(self, stream_id: str | None) -> None:
        self.stream_id = stream_id
        self._reset()

    def _reset(self) -> None:
        self._items: dict[_Key, _Item] = {}
        self._keys: dict[str, _Key] = {}  # of items, by item ID and call ID
        self._failures: set[str] = set()
        self._search_id = ""  # ID of the last tool search that the provider runs
        self._client_ids: set[str] = set()  # IDs of calls that the client has to answer

    def feed(self, data: _StreamEvent, event: str) -> list[d.Delta]:
        type_, delta, item = data.type, data.delta, data.item
        key: _Key | None = data.output_index
        if key is None:
            id_ = data.item_id or items.id_of(item)
            key = self._keys.get(id_, id_)
        if type_ in items.ARGUMENT_DELTAS:
            return self._item(key).append_arguments(delta or "")
        if type_ in _TEXT_DELTAS:
            return [d.TextPiece(key, delta)] if delta else []
        if type_ in items.THINKING_DELTAS:
            return [d.ThinkingPiece(key, delta)] if delta else []
        if type_ == _DIFF_DELTA:
            if key in self._items:
                self._items[key].has_diff = True
            return [d.ArgumentValue(key, ("diff",), delta or "", more=True)]
        if type_ in _COMMANDS:
            return self._command(key, data)
        if type_ in items.ARGUMENTS_DONE:
            text = data.arguments or data.input or data.code
            if data.name and data.item_id:
                self._keys.setdefault(data.item_id, key)
            return self._item(key).end_arguments(data.name, data.item_id, text)
        if type_ == "response.reasoning_summary_part.added" and data.summary_index:
            return [d.ThinkingPiece(key, "\n\n")]
        if type_ == "response.output_item.added" and item is not None:
            return [] if self._is_repeated(key, item) else self._item_added(key, item)
        if type_ == "response.output_item.done" and item is not None:
            return self._item_done(key, item)
        if type_ == "response.created":
            return self._response_created(data.response or _Response())
        if type_ in _ENDS:
            response = data.response or _Response()
            # If event and status disagree, the one that means "cut" wins.
            status = _ENDS[type_] if _ENDS[type_] in items.CUT else response.status or _ENDS[type_]
            return self._response_ended(response, status)
        if type_ in ("error", "response.error") or event == "error" or data.error:
            error = {"code": data.code, "message": data.message}
            return self._failed(data.error or error)
        if data.object == "response":
            status = data.status or "unknown"
            return self._response_created(data) + self._response_ended(data, status)
        return []

    def _command(self, key: _Key, data: _StreamEvent) -> list[d.Delta]:
        """Return the piece that an event appends to a shell command, which usually begins empty."""
        item, index = self._items.get(key), data.command_index or 0
        if item is None or item.type != "shell_call":
            return []  # the item repeats all commands when it is done
        sent = item.commands.get(index, 0)
        if sent < 0 or (data.type == _COMMAND_ADDED and index in item.commands):
            return []
        is_over = data.type == _COMMAND_DONE
        piece = (data.delta if data.type == _COMMAND_DELTA else data.command) or ""
        if is_over:
            piece = piece[sent:]
        item.commands[index] = -1 if is_over else sent + len(piece)
        return [d.ArgumentValue(key, ("commands", index), piece, more=not is_over)]

    def _find(self, index: int, item: dict[str, Any]) -> _Key:
        """Return the key of an item of the finished response."""
        for id_ in items.ids_of(item):
            if id_ in self._keys:
                return self._keys[id_]
        there = self._items.get(index)
        is_free = there is None or there.type in ("", item.get("type"))
        return index if is_free else f"output {index}"

    def _is_repeated(self, key: _Key, item: dict[str, Any]) -> bool:
        known = self._items.get(key)
        ids = items.ids_of(item)
        if known is not None and not known.is_done:
            ids = ids[:1]  # the same item with another call ID is another call
        return known is not None and any(self._keys.get(id_) == key for id_ in ids)

    def _response_created(self, response: _Response) -> list[d.Delta]:
        self._reset()
        return [d.TurnOpened(response.id or "", response.model or "")]

    def _item_added(self, key: _Key, item: dict[str, Any]) -> list[d.Delta]:
        if self._item(key).type:  # another item in the same place
            del self._items[key]
        added = self._item(key)
        self._keys |= dict.fromkeys(items.ids_of(item), key)
        deltas = added.begin(item)
        if added.type not in items.CALLS:
            return deltas
        if items.call_kind(item) == "client":
            self._client_ids.add(added.call_id)
        elif added.type == "tool_search_call":
            self._search_id = added.call_id
        if isinstance(operation := item.get("operation"), dict):
            deltas += _fields(key, without(operation, "diff"))
        return deltas

    def _item(self, key: _Key) -> _Item:
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = _Item(key)
        return item

    def _item_done(self, key: _Key, item: dict[str, Any], *, cut: bool = False) -> list[d.Delta]:
        known = self._items.get(key)
        if known is not None and known.is_done:
            return []
        deltas = [] if known is not None and known.type else self._item_added(key, item)
        done = self._items[key]
        done.is_done = True
        type_ = text_of(item.get("type"))
        if type_ in items.CALLS:
            cut = cut or item.get("status") == "incomplete"
            return deltas + self._call_done(key, done, item, cut=cut)
        if type_ in items.OUTPUTS:
            # A hosted search has no call id, and neither has its output.
            call_id = text_of(item.get("call_id")) or self._search_id
            if call_id in self._client_ids:
                return deltas  # only the client may answer this call
            return deltas + items.hosted_result(key, item, call_id)
        return deltas + items.item_done(key, type_, item)

    def _call_done(
        self, key: _Key, done: _Item, item: dict[str, Any], *, cut: bool
    ) -> list[d.Delta]:
        given = items.call_input(item)
        deltas: list[d.Delta] = []
        if isinstance(given, dict):
            if item.get("type") == "apply_patch_call" and "diff" in given and not done.has_diff:
                deltas += _fields(key, {"diff": given["diff"]})
            elif done.commands:
                deltas += _rest_of_shell(key, done, given)
        deltas.append(done.take_input(item))
        # Without its input, it is not done: the finished response may have it.
        done.is_done = bool(done.text or cut)
        if done.is_done:
            deltas.append(d.CallClosed(key, done.text, cut))
        return deltas + items.result(item)

    def _response_ended(self, response: _Response, status: str) -> list[d.Delta]:
        deltas: list[d.Delta] = []
        is_cut = status in items.CUT
        output = response.output or []
        for index, item in enumerate(output):
            # The response was not streamed, or the server omitted events.
            is_over = item.get("status") == "completed" or index < len(output) - 1
            deltas += self._item_done(self._find(index, item), item, cut=is_cut and not is_over)
        deltas.append(d.UsageReported(items.tokens(response.usage or {})))
        if status == "failed":
            return deltas + self._failed(response.error or {"code": "failed"})
        for known in self._items.values():
            if known.pieces:  # its item never arrived: a call without a name
                deltas += known.begin({"type": "function_call"})
        if status == "completed":
            deltas += [
                d.CallClosed(key, item.text)
                for key, item in self._items.items()
                if item.type in items.CALLS and not item.is_done
            ]
        ended = items.turn_ended(status, response.incomplete_details)
        return [*deltas, ended, d.TurnClosed()]

    def _failed(self, error: dict[str, Any]) -> list[d.Delta]:
        failed = failure(error, "code", "type")
        if failed.message in self._failures:
            return []  # sent as an error, and again with the end of the response
        self._failures.add(failed.message)
        return [failed]


def _fields(key: _Key, fields: dict[str, Any]) -> list[d.Delta]:
    return [d.ArgumentValue(key, (name,), value) for name, value in fields.items()]


def _rest_of_shell(key: _Key, item: _Item, action: dict[str, Any]) -> list[d.Delta]:
    """Return the arguments of a shell call that were not streamed."""
    commands = action.get("commands")
    deltas: list[d.Delta] = []
    for index, command in enumerate(commands if isinstance(commands, list) else ()):
        sent = item.commands.get(index, 0)
        if sent >= 0 and isinstance(command, str):
            deltas.append(d.ArgumentValue(key, ("commands", index), command[sent:]))
    return deltas + _fields(key, without(action, "commands"))
