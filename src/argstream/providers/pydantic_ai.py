"""pydantic-ai: the events of an agent's run, from ``run_stream_events`` or an event stream handler.

A response of the model is a list of parts. ``index`` is the key of a part. A part starts, grows by
deltas, and ends; the end repeats the whole part.

- pydantic-ai reports the end of a part when the next one starts. A provider that interleaves calls
  still adds to such a part. So the end closes a call only if its JSON is complete, or if it is the
  last end of the response (``next_part_kind`` is None).
- No event marks the end of a response. It is over when a tool is called, when another response or
  the result of the run arrives, or after the last end of a part.
- No event has the stop reason and the usage. ``stream()`` gets the ``ModelResponse``, which has
  both, from the object that yields the events, and feeds it after the events of the response. If
  the caller passes only the events, the result of the run still has the last response.
- A call without any text is complete if the agent calls its tool.
"""

from collections.abc import Mapping
from typing import Any, Final

from argstream.history import CallKind
from argstream.providers import _deltas as d
from argstream.providers._payloads import (
    UnreadableError,
    all_fields_of,
    arguments,
    count,
    fields_of,
    json_or_none,
    json_text,
    json_value,
    plain,
    text_of,
)
from argstream.providers._stop_reasons import ending_of

_CALLS: Final = {"tool-call", "builtin-tool-call"}


class _Call:
    def __init__(self, id_: str, name: str) -> None:
        self.id = id_
        self.name = name
        self.keys: set[str] | None = set()  # arguments that arrived as values; None: all of them


class PydanticAIDecoder(d.ProviderDecoder):
    """Events of an agent → deltas."""

    protocol = "pydantic-ai"

    def __init__(self) -> None:
        self._is_open = False  # whether a turn is open
        self._is_over = False  # whether the last part of the turn has ended
        self._parts: dict[int, _Call | None] = {}  # of the open turn; None for other parts

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of one event: an object, a dict, or JSON."""
        given = all_fields_of(payload)
        match given.get("event_kind"):
            case "part_delta":
                return self._changed(_index_of(given), fields_of(given.get("delta")))
            case "part_start":
                return self._started(given, payload)
            case "part_end":
                return self._ended(given, payload)
            case "function_tool_call" | "output_tool_call":
                return self._end_turn("finished")
            case "function_tool_result" | "output_tool_result":
                result = _result(fields_of(given.get("part")))
                return [*self._end_turn("finished"), result]
            case "agent_run_result":
                return self._run_ended(given.get("result"))
            case None if given.get("kind") == "response":
                return self._responded(given)
            case None:
                name = type(payload).__name__
                raise UnreadableError(f"expected an event of pydantic-ai, not {name}")
        return []  # about the agent, or of the user

    def close(self) -> list[d.Delta]:
        """End the last turn, if all of its parts have ended.

        A handler also gets streams without any event, for responses that call no tool. These have
        not failed, so there is always a delta.
        """
        return [d.TurnSwitched(), *(self._end_turn("unknown") if self._is_over else [])]

    def _started(self, given: Mapping[str, Any], payload: object) -> list[d.Delta]:
        index, part = _index_of(given), fields_of(given.get("part"))
        is_first = index in self._parts and given.get("previous_part_kind") is None
        deltas = self._end_turn("unknown") if self._is_over or is_first else []
        if not self._is_open:
            self._is_open = True
            deltas.append(d.TurnOpened())
        known, self._parts[index] = self._parts.get(index), None
        kind, content = part.get("part_kind"), part.get("content")
        if kind in _CALLS:
            return deltas + self._call_started(index, part, known, payload)
        if kind == "text":
            deltas.append(d.BlockCompleted(index, _text(content)))
        elif kind == "thinking":
            block = d.BlockCompleted(index, _text(content), is_thinking=True)
            deltas += [d.ThinkingOpened(index), block]
        elif kind == "builtin-tool-return":
            deltas.append(_result(part, index))
        return deltas

    def _call_started(
        self, index: int, part: Mapping[str, Any], known: _Call | None, payload: object
    ) -> list[d.Delta]:
        id_, name = text_of(part.get("tool_call_id")), text_of(part.get("tool_name"))
        if known is not None and known.id == id_:
            self._parts[index] = known  # sent again; its end has the arguments
            return []
        call = self._parts[index] = _Call(id_, name)
        kind: CallKind = "function"
        if part.get("part_kind") == "builtin-tool-call":
            kind = "mcp" if name.startswith("mcp_server") else "server"
        args = plain(part.get("args"))
        opened = d.CallOpened(index, id_, name, kind, may_be_renamed=not args)
        if args == {}:
            return [opened]  # values may follow
        if isinstance(args, dict):
            call.keys = None
        return [opened, *arguments(index, args, payload)]

    def _changed(self, index: int, delta: Mapping[str, Any]) -> list[d.Delta]:
        match delta.get("part_delta_kind"):
            case "tool_call":
                call = self._parts.get(index)
                if call is None:
                    raise UnreadableError(f"a delta for the part {index}, which is not a call")
                return self._call_changed(index, call, delta)
            case "text":
                return [d.TextPiece(index, _text(delta.get("content_delta")))]
            case "thinking" if content := _text(delta.get("content_delta")):
                return [d.ThinkingPiece(index, content)]
        return []  # a signature, or audio

    def _call_changed(self, index: int, call: _Call, delta: Mapping[str, Any]) -> list[d.Delta]:
        deltas: list[d.Delta] = []
        if name := text_of(delta.get("tool_name_delta")):
            call.name += name
            deltas.append(d.CallRenamed(index, call.name))
        args = plain(delta.get("args_delta"))
        if isinstance(args, dict):
            if call.keys is None:
                return deltas  # its end has the arguments
            new = {key: value for key, value in args.items() if key not in call.keys}
            call.keys |= new.keys()
            return deltas + [d.ArgumentValue(index, (key,), value) for key, value in new.items()]
        if not isinstance(args, str | None):
            raise UnreadableError(f"args_delta must not be a {type(args).__name__}")
        return [*deltas, d.ArgumentText(index, args)] if args else deltas

    def _ended(self, given: Mapping[str, Any], payload: object) -> list[d.Delta]:
        index, part = _index_of(given), fields_of(given.get("part"))
        deltas = [] if index in self._parts else self._started(given, payload)
        is_last = given.get("next_part_kind") is None
        self._is_over = is_last
        kind = part.get("part_kind")
        if kind == "text":
            deltas.append(d.BlockCompleted(index, _text(part.get("content"))))
        elif kind == "thinking":
            content = _text(part.get("content"))
            deltas += [d.BlockCompleted(index, content, is_thinking=True), d.ThinkingClosed(index)]
        elif kind in _CALLS:
            args = plain(part.get("args"))
            text = json_text(args) if isinstance(args, dict) else text_of(args)
            if is_last or isinstance(json_or_none(text), dict):
                deltas.append(d.CallClosed(index, text))
        return deltas

    def _responded(self, response: Mapping[str, Any]) -> list[d.Delta]:
        """Read a whole response after its events. Without a stop reason, the turn stays open."""
        if not self._is_open:
            return []
        usage = d.UsageReported(_tokens(response.get("usage")))
        reason = response.get("finish_reason")
        if not isinstance(reason, str):
            return [usage]
        return [usage, *self._end_turn(ending_of(reason), reason)]

    def _run_ended(self, result: object) -> list[d.Delta]:
        deltas = self._responded(fields_of(getattr(result, "response", None)))
        deltas += self._end_turn("finished")
        fields = fields_of(result)
        usage = getattr(result, "usage", fields.get("usage"))
        output = json_value(fields.get("output"))
        return [*deltas, d.RunEnded("completed", output, tokens=_tokens(usage))]

    def _end_turn(self, ending: d.Ending, reason: str | None = None) -> list[d.Delta]:
        if not self._is_open:
            return []
        self._is_open = self._is_over = False
        self._parts.clear()
        return [d.TurnEnded(reason, ending), d.TurnClosed()]


def _result(part: Mapping[str, Any], index: int | None = None) -> d.CallResult:
    """Return the result of a call. One with an index is a part of the response."""
    call_id, content = text_of(part.get("tool_call_id")), json_value(part.get("content"))
    block = None if index is None else ("result", index)
    return d.CallResult(call_id, content, part.get("outcome") not in (None, "success"), block)


def _tokens(given: object) -> d.Tokens:
    """Return the usage. pydantic-ai has 0 for each count that is not known."""
    usage = plain(given)
    found = d.Tokens(
        input_tokens=count(usage, "input_tokens"),
        output_tokens=count(usage, "output_tokens"),
        cache_read_tokens=count(usage, "cache_read_tokens"),
        cache_write_tokens=count(usage, "cache_write_tokens"),
        reasoning_tokens=count(usage, "details", "reasoning_tokens"),
    )
    return d.Tokens(*(number or None for number in found))


def _index_of(given: Mapping[str, Any]) -> int:
    index = given.get("index")
    if type(index) is not int:
        raise UnreadableError(f"index must be an integer, not {type(index).__name__}")
    return index


def _text(value: object) -> str:
    if not isinstance(value, str | None):
        raise UnreadableError(f"content must be text, not {type(value).__name__}")
    return value or ""
