"""OpenAI Responses, also as Azure, xAI, DeepSeek, LM Studio and others serve it.

A turn is a list of output items, and ``output_index`` is the key: the id of an item can change with
every event (Copilot). An item is added, grows by deltas, and is done; its last form is said again
in whole. Deltas may be missing (LM Studio), or stop early: then that form gives the rest.
"""

from typing import Any, Final, NamedTuple

from msgspec import Struct

from argstream.adapters._payloads import PayloadReader, UnreadableError, count, is_done
from argstream.deltas import (
    ArgumentText,
    ArgumentValue,
    CallClosed,
    CallKind,
    CallOpened,
    CallResult,
    Delta,
    Opaque,
    ProviderFailed,
    TextPiece,
    ThinkingClosed,
    ThinkingOpened,
    ThinkingPiece,
    Tokens,
    TurnClosed,
    TurnEnded,
    TurnOpened,
)

__all__ = ["OpenAIResponsesAdapter"]


class _CallItem(NamedTuple):
    """What is to be known of a type of item that is a call."""

    kind: CallKind
    input: str
    """The field with its input; assembly keeps that, so it is not kept in the item."""
    tool: str = ""
    """Its tool's name, where the item has none."""


_CALLS: Final = {
    "function_call": _CallItem("function", "arguments"),
    "mcp_call": _CallItem("mcp", "arguments"),
    "custom_tool_call": _CallItem("custom", "input"),
    "code_interpreter_call": _CallItem("code", "code", "code_interpreter"),
    "apply_patch_call": _CallItem("patch", "operation", "apply_patch"),
}
_RETRYABLE: Final = {"rate_limit_exceeded", "server_error", "overloaded", "internal_error"}


class _Response(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    error: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    output: list[dict[str, Any]] | None = None


class _Happening(_Response, gc=False):
    """An event of the stream. A response that was not streamed has the fields of one."""

    type: str = ""
    output_index: int | None = None
    item_id: str | None = None
    delta: str | None = None
    arguments: str | None = None
    input: str | None = None
    code: str | None = None
    item: dict[str, Any] | None = None
    response: _Response | None = None
    summary_index: int | None = None
    message: str | None = None
    object: str | None = None


_read = PayloadReader(_Happening)


class OpenAIResponsesAdapter:
    """Payloads of the Responses API → deltas."""

    protocol = "openai-responses"

    def __init__(self) -> None:
        self._items: dict[int | str, str] = {}  # type of each that is open, by key
        self._closed_calls: set[int | str] = set()
        self._told: set[int | str] = set()  # keys of which some text has come
        self._failures: set[str] = set()

    def feed(self, payload: object, event: str = "") -> list[Delta]:  # noqa: ARG002
        """Take one payload: bytes, a dict, or an event of the SDK."""
        try:
            happening = _read(payload)
        except UnreadableError:
            if is_done(payload):
                return []
            raise
        key: int | str = (
            happening.output_index if happening.output_index is not None else happening.item_id or 0
        )
        match happening.type:
            case (
                "response.function_call_arguments.delta"
                | "response.custom_tool_call_input.delta"
                | "response.mcp_call_arguments.delta"
                | "response.code_interpreter_call_code.delta"
            ):
                self._told.add(key)
                return [ArgumentText(key, happening.delta)] if happening.delta else []
            case "response.output_text.delta" | "response.refusal.delta":
                self._told.add(key)
                return [TextPiece(key, happening.delta)] if happening.delta else []
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._told.add(key)
                return [ThinkingPiece(key, happening.delta)] if happening.delta else []
            case "response.apply_patch_call_operation_diff.delta":
                self._told.add(key)
                return [ArgumentValue(key, ("diff",), happening.delta or "", more=True)]
            case "response.reasoning_summary_part.added" if happening.summary_index:
                return [ThinkingPiece(key, "\n\n")]
            case (
                "response.function_call_arguments.done"
                | "response.custom_tool_call_input.done"
                | "response.mcp_call_arguments.done"
                | "response.code_interpreter_call_code.done"
            ):
                text = happening.arguments or happening.input or happening.code
                return self._call_closed(key, text)
            case "response.output_item.added" if happening.item is not None:
                return self._item_added(key, happening.item)
            case "response.output_item.done" if happening.item is not None:
                return self._item_done(key, happening.item)
            case _:
                return self._other(happening)

    def close(self) -> list[Delta]:
        """Say that nothing more comes."""
        return []

    def _other(self, happening: _Happening) -> list[Delta]:
        response = happening.response
        match happening.type:
            case "response.created":
                return self._response_created(response or _Response())
            case "response.completed" | "response.incomplete" | "response.failed" | "response.done":
                return self._response_ended(response or _Response())
            case "error":
                return self._failed(
                    happening.error or {"code": happening.code, "message": happening.message}
                )
            case "" if happening.object == "response":
                return self._response_created(happening) + self._response_ended(happening)
            case _:
                return []

    def _response_created(self, response: _Response) -> list[Delta]:
        self._items.clear()
        self._closed_calls.clear()
        self._told.clear()
        self._failures.clear()
        return [TurnOpened(response.id or "", response.model or "")]

    def _item_added(self, key: int | str, item: dict[str, Any]) -> list[Delta]:
        type_ = str(item.get("type"))
        self._items[key] = type_
        if type_ == "reasoning":
            return [ThinkingOpened(key)]
        if type_ not in _CALLS:
            return []
        kind, _, tool = _CALLS[type_]
        id_ = item.get("call_id") or item.get("id") or ""
        deltas: list[Delta] = [CallOpened(key, id_, tool or item.get("name") or "", kind)]
        operation = item.get("operation")
        if isinstance(operation, dict):
            settled = {field: value for field, value in operation.items() if field != "diff"}
            deltas += _fields(key, settled)
        return deltas

    def _item_done(self, key: int | str, item: dict[str, Any]) -> list[Delta]:
        type_ = str(item.get("type"))
        deltas = [] if key in self._items else self._item_added(key, item)
        self._items[key] = type_
        told = key in self._told
        match type_:
            case "reasoning":
                if not told and (thought := _thought(item)):
                    deltas.append(ThinkingPiece(key, thought))
                deltas += [Opaque(key, item), ThinkingClosed(key)]
            case "message":
                if not told and (text := _said(item)):
                    deltas.append(TextPiece(key, text))
                deltas.append(Opaque(key, item))
            case "apply_patch_call":
                operation = item.get("operation")
                diff = operation.get("diff") if isinstance(operation, dict) else None
                if diff is not None and not told:
                    deltas += _fields(key, {"diff": diff})
                deltas += [_without_input(key, item), *self._call_closed(key, None)]
            case _ if type_ in _CALLS:
                deltas.append(_without_input(key, item))
                deltas += self._call_closed(
                    key, item.get(_CALLS[type_].input), cut=item.get("status") == "incomplete"
                )
                deltas += _result(item)
            case _:
                deltas.append(Opaque(key, item))
        return deltas

    def _call_closed(self, key: int | str, text: object, *, cut: bool = False) -> list[Delta]:
        if key in self._closed_calls:
            return []
        self._closed_calls.add(key)
        return [CallClosed(key, text if isinstance(text, str) else None, cut)]

    def _response_ended(self, response: _Response) -> list[Delta]:
        deltas: list[Delta] = []
        for index, item in enumerate(response.output or ()):
            # Of a response that was not streamed, or of a server that streams no items.
            if index not in self._items and not any(isinstance(key, str) for key in self._items):
                deltas += self._item_done(index, item)
        reason = (response.incomplete_details or {}).get("reason")
        match response.status:
            case "failed":
                deltas += self._failed(response.error or {"code": "failed"})
            case "incomplete" | "cancelled":
                deltas.append(TurnEnded(str(reason or response.status), "cut"))
            case "completed" | None:
                deltas.append(TurnEnded("completed", "finished"))
            case status:
                deltas.append(TurnEnded(status, "unknown"))
        if response.status != "failed":
            deltas.append(TurnClosed(_tokens(response.usage or {})))
        return deltas

    def _failed(self, error: dict[str, Any]) -> list[Delta]:
        code = str(error.get("code") or error.get("type") or "error")
        message = str(error.get("message") or code)
        if message in self._failures:
            return []  # first as an error, then as the end of the response
        self._failures.add(message)
        return [ProviderFailed(code, message, code in _RETRYABLE)]


def _fields(key: int | str, fields: dict[str, Any]) -> list[Delta]:
    return [ArgumentValue(key, (name,), value) for name, value in fields.items()]


def _without_input(key: int | str, item: dict[str, Any]) -> Opaque:
    kept_by_assembly = _CALLS[item["type"]].input
    return Opaque(key, {name: value for name, value in item.items() if name != kept_by_assembly})


def _result(item: dict[str, Any]) -> list[Delta]:
    """Give what came of a call that the provider ran."""
    match item:
        case {"type": "mcp_call", "id": str(id_), "error": error} if error is not None:
            return [CallResult(id_, error, failed=True)]
        case {"type": "mcp_call", "id": str(id_), "output": output} if output is not None:
            return [CallResult(id_, output)]
        case {"type": "code_interpreter_call", "id": str(id_), "outputs": outputs}:
            return [CallResult(id_, outputs)]
        case _:
            return []


def _thought(item: dict[str, Any]) -> str:
    parts = item.get("summary") or item.get("content") or ()
    return "\n\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _said(item: dict[str, Any]) -> str:
    parts = item.get("content") or ()
    return "".join(part.get("text") or part.get("refusal") or "" for part in parts)


def _tokens(usage: dict[str, Any]) -> Tokens:
    return Tokens(
        input_tokens=count(usage, "input_tokens"),
        output_tokens=count(usage, "output_tokens"),
        cache_read_tokens=count(usage, "input_tokens_details", "cached_tokens"),
        reasoning_tokens=count(usage, "output_tokens_details", "reasoning_tokens"),
    )
