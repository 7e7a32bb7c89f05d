"""Gemini's Interactions API.

An interaction is a list of steps: thoughts, texts, calls of functions and of Google's tools. A step
is started, grows by deltas, and is stopped; its index is its key. The arguments of a function are
text. The object in its start is a placeholder if deltas follow. Arguments of Google's tools are
values, and their results are separate steps. The final status says whether anything was cut.
"""

from typing import Any, Final

from msgspec import Struct

from argstream.history import CallKind
from argstream.providers import _deltas as d
from argstream.providers._payloads import (
    PayloadReader,
    UnreadableError,
    count,
    failure,
    fields_of,
    plain,
    refuse_duplicate_keys,
    text_of,
    texts_in,
    total,
    without,
)
from argstream.providers._stop_reasons import ending_of

_KNOWN: Final = {"interaction.created", "interaction.completed", "error"} | {
    f"step.{name}" for name in ("start", "delta", "stop")
}
_CODE: Final = "code_execution_call"
_KINDS: Final[dict[str, CallKind]] = {
    "function_call": "function",
    _CODE: "code",
    "mcp_server_tool_call": "mcp",
}
_USER_STEPS: Final = {"user_input", "function_result"}
# Fields of a step that assembly keeps itself.
_KEPT_CALL_FIELDS: Final = {"type", "id", "name", "arguments"}


class _Delta(Struct, gc=False):
    type: str = ""
    text: str | None = None
    arguments: str | dict[str, Any] | None = None
    signature: str | None = None
    content: dict[str, Any] | None = None
    annotations: list[Any] | None = None
    result: Any = None
    is_error: bool | None = None


class _StreamEvent(Struct, gc=False):
    event_type: str = ""
    index: int | None = None
    step: dict[str, Any] | None = None
    delta: _Delta | None = None
    interaction: dict[str, Any] | None = None
    error: Any = None


_read = PayloadReader(_StreamEvent, vital="index step delta arguments text interaction")


class GeminiInteractionsDecoder(d.ProviderDecoder):
    """Payloads of the Interactions API → deltas."""

    protocol = "gemini-interactions"

    def __init__(self) -> None:
        self._steps: dict[int, dict[str, Any]] = {}  # open steps
        self._changed: set[int] = set()  # calls whose arguments arrived as deltas

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of one payload: bytes, a dict, or an event of the SDK."""
        try:
            data = _read(payload)
        except UnreadableError:
            if fields_of(payload).get("event_type") not in (None, *_KNOWN):
                return []
            raise
        index, change = data.index, data.delta
        match data.event_type:
            case "step.delta":
                if index is None or change is None:
                    raise UnreadableError("step.delta has no index or no delta")
                if isinstance(change.arguments, dict):
                    refuse_duplicate_keys(payload)
                return self._step_changed(index, change, payload)
            case "step.start":
                if index is None or data.step is None:
                    raise UnreadableError("step.start has no index or no step")
                refuse_duplicate_keys(payload)
                return self._step_started(index, data.step)
            case "step.stop":
                if index is None:
                    raise UnreadableError("step.stop has no index")
                deltas = self._rest_of_step(index)
                kind = _kind(text_of(self._steps.pop(index, {}).get("type")))
                return deltas if kind is None else [*deltas, d.CallClosed(index)]
            case "interaction.created":
                self._steps.clear()
                self._changed.clear()
                created = data.interaction or {}
                model = text_of(created.get("model")) or text_of(created.get("agent"))
                return [d.TurnOpened(text_of(created.get("id")), model)]
            case "interaction.completed":
                return self._completed(data.interaction or {})
            case type_ if data.error or "error" in (type_, event):
                return [_failure(data.error)]
            case _:  # a status, which is repeated at the end, or an event that is not known
                return []

    def close(self) -> list[d.Delta]:
        """Return the deltas that are known only at the end of the stream."""
        return self._rest_of_steps()

    def _completed(self, interaction: dict[str, Any]) -> list[d.Delta]:
        deltas = self._rest_of_steps()
        status, usage = text_of(interaction.get("status")), interaction.get("usage")
        ending = ending_of(status)
        deltas.append(d.UsageReported(_tokens(usage)))
        if status == "failed":
            return [*deltas, _failure({"code": status, "message": "the interaction failed"})]
        return [*deltas, d.TurnEnded(status or None, ending), d.TurnClosed()]

    def _step_started(self, index: int, step: dict[str, Any]) -> list[d.Delta]:
        if step.get("id") and step.get("id") == self._steps.get(index, {}).get("id"):
            return []  # a repetition
        self._changed.discard(index)
        self._steps[index] = step = dict(step)
        type_ = text_of(step.get("type"))
        if type_ == "thought":
            deltas: list[d.Delta] = [d.ThinkingOpened(index)]
            deltas += [d.ThinkingPiece(index, text) for text in texts_in(step.get("summary"))]
            return deltas
        if type_ == "model_output":
            failed = [_failure(step["error"])] if step.get("error") else []
            return [*(d.TextPiece(index, text) for text in texts_in(step.get("content"))), *failed]
        if (kind := _kind(type_)) is None:
            return []
        name = text_of(step.get("name")) or type_.removesuffix("_call")
        return [d.CallOpened(index, text_of(step.get("id")), name, kind)]

    def _step_changed(self, index: int, change: _Delta, payload: object) -> list[d.Delta]:
        step = self._steps.get(index)
        if change.signature and step is not None:
            _extend(step, "signature", change.signature)
        match change.type:
            case "arguments_delta":
                if not isinstance(change.arguments, str):
                    raise UnreadableError("arguments_delta is not text")
                if not change.arguments:
                    return []
                self._changed.add(index)
                return [d.ArgumentText(index, change.arguments)]
            case "text":
                return [d.TextPiece(index, change.text)] if change.text else []
            case "thought_summary":
                if step is not None and change.content is not None:
                    _extend(step, "summary", [change.content])
                return [d.ThinkingPiece(index, text) for text in texts_in([change.content])]
            case type_ if _kind(type_) is not None:
                return self._call_changed(index, type_, change)
            case _ if step is None or change.type == "thought_signature":
                return []
            case "text_annotation_delta":
                _extend(step, "annotations", change.annotations or [])
            case type_ if type_.endswith("_result"):
                _extend(step, "result", change.result)
                if change.is_error is not None:
                    step["is_error"] = change.is_error
            case type_:  # an image or other media
                return [d.Opaque((index, type_), plain(fields_of(payload)["delta"]))]
        return []

    def _call_changed(self, index: int, type_: str, change: _Delta) -> list[d.Delta]:
        """Read arguments of a tool that Google runs. They are values."""
        arguments = change.arguments
        if not isinstance(arguments, dict):
            return []
        self._changed.add(index)
        if type_ == _CODE:
            return [d.ArgumentText(index, code)] if (code := text_of(arguments.get("code"))) else []
        return [d.ArgumentValue(index, (name,), value) for name, value in arguments.items()]

    def _rest_of_step(self, index: int) -> list[d.Delta]:
        """Return the deltas that are known only at the end of a step."""
        step = self._steps.get(index, {})
        type_ = text_of(step.get("type"))
        if _kind(type_) is not None:
            return self._rest_of_call(index, step, type_)
        if type_ == "thought":
            return [d.Opaque(index, step), d.ThinkingClosed(index)]
        if type_ == "model_output":
            has_more = step.keys() - {"type", "content"}
            return [d.Opaque(index, without(step, "content"))] if has_more else []
        if type_.endswith("_result") and type_ not in _USER_STEPS:
            call_id, failed = text_of(step.get("call_id")), bool(step.get("is_error"))
            return [d.CallResult(call_id, step.get("result"), failed, index), d.Opaque(index, step)]
        if type_ and type_ not in _USER_STEPS:
            return [d.Opaque(index, step)]
        return []

    def _rest_of_call(self, index: int, step: dict[str, Any], type_: str) -> list[d.Delta]:
        deltas: list[d.Delta] = []
        arguments = step.get("arguments")
        if index not in self._changed and isinstance(arguments, dict) and arguments:
            # Not a placeholder, because no delta followed. An empty one may be, of a cut call.
            if type_ == _CODE:
                deltas.append(d.ArgumentText(index, text_of(arguments.get("code"))))
            else:
                deltas.append(d.ArgumentValue(index, (), arguments))
        if any(step[name] for name in step.keys() - _KEPT_CALL_FIELDS):
            deltas.append(d.Opaque(index, without(step, "arguments")))
        return deltas

    def _rest_of_steps(self) -> list[d.Delta]:
        """End the steps that were not stopped, without closing their calls."""
        rest = [delta for index in self._steps for delta in self._rest_of_step(index)]
        self._steps.clear()
        return rest


def _kind(type_: str) -> CallKind | None:
    """Return the kind of call for a step type; None if it is not a call."""
    return _KINDS.get(type_, "server" if type_.endswith("_call") else None)


def _extend(step: dict[str, Any], field: str, piece: Any) -> None:
    """Extend a field of a step if it is a list or a text, else replace it."""
    known: Any = step.pop(field, None)
    if type(known) is type(piece) and type(known) in (list, str):
        known += piece  # in place: nothing else refers to it (invariant 6)
        piece = known
    step[field] = piece


def _failure(error: object) -> d.ProviderFailed:
    return failure(error, "code", "status")


def _tokens(usage: object) -> d.Tokens:
    thoughts = count(usage, "total_thought_tokens")
    return d.Tokens(
        input_tokens=total(
            count(usage, "total_input_tokens"), count(usage, "total_tool_use_tokens")
        ),
        output_tokens=total(count(usage, "total_output_tokens"), thoughts),
        cache_read_tokens=count(usage, "total_cached_tokens"),
        reasoning_tokens=thoughts,
    )
