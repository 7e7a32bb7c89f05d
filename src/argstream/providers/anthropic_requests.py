"""Requests to Anthropic's Messages API.

A message is a list of blocks, and the API's own blocks are sent back unchanged. A history may
contain things that the API rejects: blocks of white space, a message that ends with thinking, a
call of Anthropic's tools without a result, duplicate IDs.
"""

import re
from typing import Any, Final

from argstream.errors import UsageError
from argstream.history import CallPart, OpaquePart, ResultPart, TextPart, ThinkingPart
from argstream.providers import ProtocolName
from argstream.providers._deltas import RUN_BY_PROVIDER
from argstream.providers._requests import (
    BUDGETS,
    Answer,
    CallIds,
    ModelRequest,
    ModelSettings,
    OfferedTool,
    Turn,
    TurnPart,
    arguments_object,
    choice_of,
    effort_of,
    encodable,
    loading_options,
    own_id,
    result_text,
    sampling_of,
    schema_of,
    set_fields,
    turns_of,
    wire_name,
)

_DEFAULT_MAX_TOKENS: Final = 8192
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_USER_BLOCKS: Final = ("image", "document", "search_result")
_SERVER_CALL: Final = "srvtoolu_"  # ID prefix of calls that Anthropic runs; the item may be lost
_BETA: Final = "anthropic-beta"
_MIN_BUDGET: Final = 1024
# Claude up to 4.5 needs a token budget for thinking, 4.6 accepts a budget or adaptive thinking, and
# from 4.7 on there is no budget. For other model names the setting is sent unchanged.
_BUDGET_ONLY: Final = re.compile(r"claude-(?:[23]\b|(?:opus|sonnet|haiku)-4(?![-.][6-9]\b))")
_BUDGET_OR_ADAPTIVE: Final = re.compile(r"claude-(?:opus|sonnet)-4[-.]6")
_CLAUDE: Final = re.compile(r"claude-")
# Thinking cannot be disabled for these, only reduced.
_ALWAYS_THINKS: Final = re.compile(r"claude-(?:fable|mythos|opus-5[-.][5-9]\b)")
# Without thinking, these write notes between calls, and reject requests that do not allow it.
_WITH_NOTES: Final = re.compile(r"claude-sonnet-5[-.][5-9]\b")
_MIN_TOP_P: Final = 0.95

_Block = dict[str, Any]


class AnthropicApi:
    """``POST /v1/messages``."""

    protocol: ProtocolName = "anthropic"
    path = "/v1/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers that the API requires, with the key if there is one."""
        headers = {"anthropic-version": "2023-06-01"}
        return headers if key is None else {**headers, "x-api-key": key}

    def body(self, model: str, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a streaming request."""
        settings = request.settings
        writer = _MessageWriter(request)
        messages = writer.messages()
        body: dict[str, Any] = {"model": model, "messages": messages, "stream": True}
        if request.instructions.strip():
            body["system"] = request.instructions
        if writer.container is not None:
            body["container"] = writer.container
        body |= sampling_of(settings, "max_tokens", "stop_sequences")
        body |= _thinking(model, request, messages)
        body |= _tools(request, writer.called)
        body = {**encodable(body), **settings.extra}
        _set_max_tokens(body, settings)
        return body


class _MessageWriter:
    def __init__(self, request: ModelRequest) -> None:
        self._offered = {tool.name for tool in request.tools}
        self._turns = turns_of(request.messages, CallIds(r"[a-zA-Z0-9_-]{1,64}", unique=True))
        self._with_result = {
            one.part.call_id
            for turn in self._turns
            for one in turn.parts
            if isinstance(one.part, ResultPart) and one.origin == "anthropic"
        }
        self._sent: set[str] = set()  # IDs of the calls of Anthropic's tools
        self.called: list[str] = []  # names of the tools that were called
        self.container: str | None = None  # where code ran; its files are lost if not sent again

    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        for turn in self._turns:
            blocks = self._user(turn) if turn.role == "user" else self._assistant(turn)
            if not blocks:
                continue
            if not messages and turn.role == "assistant":
                messages.append({"role": "user", "content": [_text("(The conversation begins.)")]})
            if messages and messages[-1]["role"] == turn.role:
                messages[-1]["content"] += blocks
            else:
                messages.append({"role": turn.role, "content": blocks})
        if not messages:
            raise UsageError("request has no content. Add a message with text.")
        return messages

    def _user(self, turn: Turn) -> list[_Block]:
        blocks = [_result(answer) for answer in turn.answers]  # these must come first
        for one in turn.parts:
            match one.part:
                case TextPart(text=text, item=item) if text.strip():
                    blocks.append(
                        item if item is not None and one.origin == "anthropic" else _text(text)
                    )
                case OpaquePart(item=item) if one.origin == "anthropic" and "type" in item:
                    blocks.append(item)
        return blocks

    def _assistant(self, turn: Turn) -> list[_Block]:
        is_last = turn is self._turns[-1]
        found = (self._block(one, turn, is_last=is_last) for one in turn.parts)
        blocks = [block for block in found if block is not None]
        while blocks and blocks[-1]["type"] in _THOUGHTS:
            blocks.pop()
        if is_last and blocks and blocks[-1]["type"] == "text":
            blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}
        return blocks

    def _block(self, one: TurnPart, turn: Turn, *, is_last: bool) -> _Block | None:
        part, is_own = one.part, one.origin == "anthropic"
        match part:
            case TextPart(text=text, item=item):
                if not text.strip():
                    return None
                has_citations = is_own and item is not None and item.get("citations")
                return item if has_citations else _text(text)
            case ThinkingPart(item=item):
                return item if is_own else None
            case CallPart() if part.kind in RUN_BY_PROVIDER:
                return self._server_call(part, is_own=is_own, is_last=is_last)
            case CallPart():
                return self._call(part, turn.wire_ids[part.call_id], is_own=is_own)
            case ResultPart(call_id=call_id, item=item):
                return item if is_own and call_id in self._sent else None
            case OpaquePart(item={"container": container}):
                if isinstance(container, dict) and isinstance(container.get("id"), str):
                    self.container = container["id"]
                return None
            case OpaquePart(item=item):
                return item if is_own and item["type"] not in _USER_BLOCKS else None

    def _call(self, part: CallPart, wire_id: str, *, is_own: bool) -> _Block:
        name = wire_name(part.name, self._offered)
        self.called.append(name)
        item = part.item if is_own and part.item is not None else {"type": "tool_use"}
        return {**item, "id": wire_id, "name": name, "input": arguments_object(part)}

    def _server_call(self, part: CallPart, *, is_own: bool, is_last: bool) -> _Block | None:
        """Return a call that Anthropic has run, or will run when the turn continues."""
        id_ = own_id(part)
        if not (is_own or id_.startswith(_SERVER_CALL)):
            return None
        if not (part.call_id in self._with_result or (is_last and part.verdict == "complete")):
            return None
        self._sent.add(part.call_id)
        item: _Block = {"type": "server_tool_use", "id": id_, "name": part.name}
        if is_own and part.item is not None:
            item = part.item
        return {**item, "input": arguments_object(part)}


def _text(text: str) -> _Block:
    return {"type": "text", "text": text}


def _result(answer: Answer) -> _Block:
    call, wire_id, result = answer
    content = result_text(result)
    block: _Block = {"type": "tool_result", "tool_use_id": wire_id, "content": content}
    if result.failed:
        block["is_error"] = True
    toolset = (call.item or {}).get("toolset_name")
    return block if toolset is None else {**block, "toolset_name": toolset}


def _thinking(model: str, request: ModelRequest, messages: list[_Block]) -> dict[str, Any]:
    fields = _thinking_fields(model, request.settings)
    thinking = fields.get("thinking", {})
    # With a budget, the API rejects a turn that did not begin with thinking.
    if "budget_tokens" in thinking and _continues_without_thinking(messages):
        return {}
    # Other models with this API may accept all settings. ``extra`` is not checked.
    if thinking.get("type") in ("enabled", "adaptive") and _CLAUDE.search(model):
        _check_thinking_settings(request)
    return fields


def _thinking_fields(model: str, settings: ModelSettings) -> dict[str, Any]:
    thinking, effort = settings.thinking, effort_of(settings)
    if thinking is None:
        return {}
    if effort == "none":
        if _ALWAYS_THINKS.search(model):
            return {"output_config": {"effort": "low"}}
        type_ = "between_tools" if _WITH_NOTES.search(model) else "disabled"
        return {"thinking": {"type": type_}}
    by_budget = isinstance(thinking, int)
    if _BUDGET_ONLY.search(model):
        by_budget = True
    elif _CLAUDE.search(model) and not _BUDGET_OR_ADAPTIVE.search(model):
        by_budget = False
    if not by_budget:
        # Newer models send no thinking text without ``display``.
        shown = {"display": "summarized"} if _CLAUDE.search(model) else {}
        return {"thinking": {"type": "adaptive", **shown}, "output_config": {"effort": effort}}
    budget = thinking if isinstance(thinking, int) else BUDGETS.get(thinking)
    if budget is None:
        raise UsageError(
            f"thinking of {model} must be a number of tokens or one of {', '.join(BUDGETS)}, "
            f"not {thinking!r}"
        )
    if budget < _MIN_BUDGET:
        raise UsageError(f"thinking must be 0 or at least {_MIN_BUDGET}, not {budget}")
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _check_thinking_settings(request: ModelRequest) -> None:
    """Raise ``UsageError`` for settings that Claude rejects with thinking."""
    settings = request.settings
    has_tools = request.tools or settings.provider_tools
    if has_tools and settings.tool_choice not in (None, "auto", "none"):
        raise UsageError(
            "tool_choice must be 'auto' or 'none' for Claude with thinking, not "
            f"{settings.tool_choice!r}. Change it, or set thinking to 0."
        )
    if settings.temperature not in (None, 1):
        raise UsageError(
            f"temperature must be 1 for Claude with thinking, not {settings.temperature}. Omit it, "
            "or set thinking to 0."
        )
    if settings.top_p is not None and settings.top_p < _MIN_TOP_P:
        raise UsageError(
            f"top_p must be at least {_MIN_TOP_P} for Claude with thinking, not "
            f"{settings.top_p}. Omit it, or set thinking to 0."
        )


def _tools(request: ModelRequest, called: list[str]) -> dict[str, Any]:
    """Return the tools; if there are none, those of the history: the API requires their names."""
    settings = request.settings
    offered = [*map(_tool, request.tools), *map(dict, settings.provider_tools)]
    if not offered:
        if not called or "tools" in settings.extra:
            return {}
        known = [OfferedTool(name=name, schema={}) for name in dict.fromkeys(called)]
        return {"tools": [_tool(tool) for tool in known], "tool_choice": {"type": "none"}}
    tools: dict[str, Any] = {"tools": offered}
    choice: dict[str, Any] = {}
    if (name := choice_of(request)) in ("auto", "any", "none"):
        choice = {"type": name}
    elif name is not None:
        choice = {"type": "tool", "name": name}
    if settings.parallel_tool_calls is not None and choice.get("type") != "none":
        is_alone = not settings.parallel_tool_calls
        choice = {"type": "auto", **choice, "disable_parallel_tool_use": is_alone}
    return {**tools, "tool_choice": choice} if choice else tools


def _tool(tool: OfferedTool) -> dict[str, Any]:
    fields = {
        "name": tool.name,
        "input_schema": schema_of(tool),
        "description": tool.description,
        "strict": tool.strict,
        "eager_input_streaming": tool.eager_input_streaming,
        "input_examples": [dict(example) for example in tool.input_examples],
    }
    return set_fields(fields) | loading_options(tool, unknown="programmatic")


def _set_max_tokens(body: dict[str, Any], settings: ModelSettings) -> None:
    """Set ``max_tokens``, which the API requires, above the thinking budget."""
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    budget = budget if isinstance(budget, int) else 0
    most = body.setdefault("max_tokens", budget + _DEFAULT_MAX_TOKENS)
    # Invalid headers are reported when the request is sent.
    betas = (value for name, value in settings.headers.items() if str(name).lower() == _BETA)
    # If the model may think between calls, the budget is for several turns.
    is_interleaved = any("interleaved-thinking" in str(value) for value in betas)
    if is_interleaved or settings.extra.keys() & {"thinking", "max_tokens"}:
        return  # the next turns have room, or the user has set it on purpose
    if most <= budget:
        raise UsageError(
            f"max_tokens ({most}) must be greater than the thinking budget ({budget}). Raise "
            "max_tokens or lower thinking."
        )


def _continues_without_thinking(messages: list[dict[str, Any]]) -> bool:
    """Return True if the turn began without thinking, at another provider, and continues here."""
    first: dict[str, Any] | None = None
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message
        elif not any(block["type"] == "tool_result" for block in message["content"]):
            break
    return first is not None and first["content"][0]["type"] not in _THOUGHTS
