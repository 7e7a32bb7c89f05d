"""A request as OpenAI's Chat Completions API wants it, and as the servers do that speak it.

A message of the assistant has one text and a list of calls; each result is a message of its own.
Thinking has no place in the standard: servers that want it back say it in a field of their own, and
get it back in that field. What else differs between servers is in ``chat_habits``.
"""

import re
from itertools import groupby
from typing import Any, Final

from argstream.adapters import ProtocolName
from argstream.clients.apis._origins import origin_of
from argstream.clients.apis._thinking import effort_of
from argstream.clients.apis._tool_forms import openai_tools, schema_of
from argstream.clients.apis._turns import CallIds, Said, Turn, turns_of, wire_name
from argstream.clients.apis._wording import arguments_text, error_text, sendable
from argstream.clients.apis.chat_habits import ChatHabits
from argstream.clients.request import ModelRequest, ModelSettings, OfferedTool
from argstream.deltas import RUN_BY_PROVIDER
from argstream.errors import UsageError
from argstream.history import CallPart, Message, OpaquePart, TextPart, ThinkingPart

__all__ = ["ChatApi"]

_DETAILS: Final = "reasoning_details"
_EFFORT: Final = "reasoning_effort"


class ChatApi:
    """``POST /chat/completions``."""

    protocol: ProtocolName = "openai-chat"
    path = "/chat/completions"

    def __init__(self, habits: ChatHabits | None = None) -> None:
        self.habits = habits or ChatHabits()

    def headers(self, key: str | None) -> dict[str, str]:
        """Give the headers that it needs, with the key if there is one."""
        return {} if key is None else {"authorization": f"Bearer {key}"}

    def body(self, model: str, request: ModelRequest) -> dict[str, Any]:
        """Write a request for a stream."""
        settings = request.settings
        messages = _Writer(request, self.habits).messages()
        if not messages:
            raise UsageError("there is nothing to ask: give the model a message with text")
        if request.instructions.strip():
            content = sendable(request.instructions)
            messages.insert(0, {"role": self.habits.system_role, "content": content})
        body: dict[str, Any] = {"model": model, "messages": messages, "stream": True}
        if self.habits.tells_usage:
            body["stream_options"] = {"include_usage": True}
        body |= self._sampling(settings)
        body |= self._thinking(model, request)
        body |= openai_tools(request, tool=_tool, choice=_choice)
        return {**body, **settings.extra}

    def _sampling(self, settings: ModelSettings) -> dict[str, Any]:
        fields = {
            self.habits.max_tokens_field: settings.max_tokens,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "stop": list(settings.stop_sequences) or None,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _thinking(self, model: str, request: ModelRequest) -> dict[str, Any]:
        settings, habits = request.settings, self.habits
        effort = effort_of(settings)
        if request.tools and habits.silent_with_tools and re.match(habits.silent_with_tools, model):
            if effort not in (None, "none"):
                raise UsageError(
                    f"thinking: with tools, {model} thinks only in the Responses API: ask "
                    f"'openai-responses:{model}', or leave thinking unset"
                )
            effort = "none"
        if effort == "none":
            if habits.no_thinking is not None:
                return dict(habits.no_thinking)
            effort = habits.least_effort(model)
        if effort is None:
            return {}
        if habits.fixed_thinking and re.match(habits.fixed_thinking, model):
            raise UsageError(
                f"thinking: {model} cannot be told how much to think: leave it unset. If it can, "
                f"write extra={{'{_EFFORT}': '{effort}'}}"
            )
        if habits.thinking_field == _EFFORT:
            return {_EFFORT: effort}
        is_budget = isinstance(settings.thinking, int) and settings.thinking > 0
        how_much = {"max_tokens": settings.thinking} if is_budget else {"effort": effort}
        return {"reasoning": how_much}


class _Writer:
    """Writes the messages of one request."""

    def __init__(self, request: ModelRequest, habits: ChatHabits) -> None:
        self._habits = habits
        self._offered = {tool.name for tool in request.tools}
        self._turns = turns_of(request.messages, CallIds(habits.call_ids, unique=False))

    def messages(self) -> list[dict[str, Any]]:
        """Write all turns that have anything to say."""
        messages: list[dict[str, Any]] = []
        for turn in self._turns:
            for message in self._user(turn) if turn.role == "user" else self._assistant(turn):
                last = messages[-1] if messages else {}
                if last.get("role") == message["role"] != "tool":
                    _merge(last, message)  # what was between them could not be sent
                    continue
                if last.get("role") == "tool" and message["role"] == "user" and self._habits.bridge:
                    messages.append(self._finished({"content": self._habits.bridge}))
                messages.append(message)
        if not self._habits.content_with_calls:
            for message in messages:
                if "tool_calls" in message:
                    message["content"] = None
        return messages

    def _user(self, turn: Turn) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": answer.wire_id, "content": error_text(answer.result)}
            for answer in turn.answers
        ]
        if content := _content(turn.said):
            messages.append({"role": "user", "content": content})
        return messages

    def _assistant(self, turn: Turn) -> list[dict[str, Any]]:
        texts: list[tuple[Message, str]] = []
        calls: list[dict[str, Any]] = []
        thinking: dict[str, Any] = {}
        for said in turn.said:
            match said.part:
                case TextPart(text=text) if text:
                    texts.append((said.message, text))
                case ThinkingPart() | OpaquePart():
                    self._add_thinking(said.part, thinking)
                case CallPart(kind=kind) if kind not in RUN_BY_PROVIDER:
                    calls.append(self._call(said.part, turn.wire_ids[said.part.call_id]))
                case _:  # a call that its provider ran, or the result of one
                    pass
        if not texts and not calls:
            return []
        message: dict[str, Any] = {"content": _joined(texts), **thinking}
        if calls:
            message["tool_calls"] = calls
        return [self._finished(message)]

    def _finished(self, message: dict[str, Any]) -> dict[str, Any]:
        if self._habits.wants_thinking:
            # An empty one is refused, too.
            message = {self._habits.wants_thinking: " ", **message}
        return {"role": "assistant", **message}

    def _add_thinking(self, part: ThinkingPart | OpaquePart, thinking: dict[str, Any]) -> None:
        """Add what this API has thought, in the field that it came in."""
        item = part.item or {}
        if origin_of(item) != "openai-chat":
            return
        if _DETAILS in item and _DETAILS in self._habits.takes_back:
            thinking[_DETAILS] = thinking.get(_DETAILS, []) + item[_DETAILS]
        field = item.get("field")
        if field in self._habits.takes_back and isinstance(part, ThinkingPart):
            thinking[field] = thinking.get(field, "") + part.text

    def _call(self, part: CallPart, wire_id: str) -> dict[str, Any]:
        name = wire_name(part.name, self._offered)
        item = part.item or {}
        call: dict[str, Any]
        if part.kind == "custom" and "type" not in item:
            custom = {"name": name, "input": sendable(part.raw)}
            call = {"id": wire_id, "type": "custom", "custom": custom}
        else:
            function = {"name": name, "arguments": arguments_text(part)}
            call = {"id": wire_id, "type": "function", "function": function}
        if "extra_content" in item and "extra_content" in self._habits.takes_back:
            call["extra_content"] = item["extra_content"]
        return call


def _joined(texts: list[tuple[Message, str]]) -> str | None:
    """Join the texts of one message as they came, and messages as paragraphs."""
    messages = groupby(texts, key=lambda one: id(one[0]))
    joined = ("".join(text for _, text in of_message) for _, of_message in messages)
    return sendable("\n\n".join(joined)) if texts else None


def _content(said: list[Said]) -> str | list[dict[str, Any]]:
    """Give what a user says: a text, or parts if there is something that is none."""
    parts: list[dict[str, Any]] = []
    for part, message in said:
        match part:
            case TextPart(text=text) if text:
                parts.append({"type": "text", "text": sendable(text)})
            case OpaquePart(item=item) if origin_of(item, message.id) == "openai-chat":
                if "type" in item:
                    parts.append(item)
            case _:
                pass
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return parts


def _merge(message: dict[str, Any], other: dict[str, Any]) -> None:
    """Add a message to one of the same role; the first one has no calls, or results had come."""
    for name, value in other.items():
        known = message.get(name)
        if name in ("role", "content") or known is None or value is None:
            continue
        message[name] = known + value
    contents = [one for one in (message.get("content"), other.get("content")) if one]
    if len(contents) == 2 and any(isinstance(content, list) for content in contents):
        contents = [_as_parts(content) for content in contents]
        message["content"] = contents[0] + contents[1]
    elif contents:
        message["content"] = "\n\n".join(contents)
    for name, value in other.items():
        message.setdefault(name, value)


def _as_parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _tool(tool: OfferedTool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "parameters": schema_of(tool)}
    if tool.description:
        function["description"] = sendable(tool.description)
    return {"type": "function", "function": function}


def _choice(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}
