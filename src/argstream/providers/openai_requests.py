"""Requests to OpenAI's Responses API, and to Chat Completions and compatible servers.

In Chat Completions, an assistant message has one text and a list of calls, and each result is a
separate message. Thinking is not part of the standard: servers that want it back get it in the
field in which they sent it. ``CHAT_COMPATIBILITY`` lists the other differences between servers.
In Responses, everything is an item, and the API's own items are sent back unchanged.
"""

import json
import re
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Final, Literal

from msgspec import Struct

from argstream.errors import UsageError
from argstream.history import CallPart, Message, OpaquePart, ResultPart, TextPart, ThinkingPart
from argstream.providers import ProtocolName
from argstream.providers._deltas import RUN_BY_PROVIDER
from argstream.providers._requests import (
    Answer,
    CallIds,
    Effort,
    ModelRequest,
    OfferedTool,
    Turn,
    TurnPart,
    arguments_object,
    arguments_text,
    choice_of,
    effort_of,
    encodable,
    loading_options,
    origin_of,
    result_text,
    sampling_of,
    schema_of,
    set_fields,
    turns_of,
    wire_name,
)

_DETAILS: Final = "reasoning_details"
_EFFORT: Final = "reasoning_effort"
_INPUT_PARTS: Final = ("input_image", "input_file")
_REQUIRES_ID: Final = {"local_shell_call", "computer_call", "mcp_approval_request"}
_BLANK_IMAGE: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgAB"
    "SK+kcQAAAABJRU5ErkJggg=="
)
"""One black pixel."""
# OpenAI models that do not reason, and those that cannot be set to reason less.
_WITHOUT_REASONING: Final = re.compile(r"gpt-[34]|chatgpt-|.*-chat")
_MIN_LOW: Final = re.compile(r"o\d|.*-codex")
_MIN_MINIMAL: Final = re.compile(r"gpt-5(?!\.)")
# Keywords that structured outputs support, none of which changes the meaning of another.
_STRICT_KEYWORDS: Final = {
    "type",
    "title",
    "description",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "enum",
    "const",
    "$defs",
    "$ref",
}
_OPENAI_CHOICES: Final = {"auto": "auto", "none": "none", "any": "required"}

_Item = dict[str, Any]


class _OpenAiApi:
    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers that the API requires, with the key if there is one."""
        return {} if key is None else {"authorization": f"Bearer {key}"}


class ResponsesApi(_OpenAiApi):
    """``POST /responses``."""

    protocol: ProtocolName = "openai-responses"
    path = "/responses"

    def body(self, model: str, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a streaming request."""
        settings = request.settings
        if settings.stop_sequences:
            raise UsageError(
                "the Responses API has no stop_sequences. Use Chat Completions instead."
            )
        offered = {tool.name for tool in request.tools}
        turns = turns_of(request.messages, CallIds(r"(?s:.{1,64})", unique=True))
        items: list[_Item] = []
        for turn in turns:
            items += _user(turn) if turn.role == "user" else _AssistantItems(turn, offered).items()
        if not items:
            raise UsageError("request has no content. Add a message with text.")
        body: dict[str, Any] = {"model": model, "input": items, "stream": True, "store": False}
        if _is_reasoning_model(model):  # other models reject this
            body["include"] = ["reasoning.encrypted_content"]
        if request.instructions.strip():
            body["instructions"] = request.instructions
        body |= sampling_of(settings, "max_output_tokens")
        effort = effort_of(settings)
        if effort == "none":
            effort = _min_openai_effort(model)
        if effort is not None:
            body["reasoning"] = {"effort": effort}
        body |= _openai_tools(request, _tool, lambda name: {"name": name})
        return {**encodable(body), **settings.extra}


class _AssistantItems:
    def __init__(self, turn: Turn, offered: set[str]) -> None:
        self._turn = turn
        self._offered = offered
        # Items refer to their reasoning by ID. Without the reasoning, the IDs must be removed.
        self._keeps_ids = not any(
            isinstance(one.part, ThinkingPart)
            and one.origin == "openai-responses"
            and not _has_own_content(one.part)
            for one in turn.parts
        )

    def items(self) -> list[_Item]:
        """Return the items in order, without reasoning that nothing follows."""
        items = [item for one in self._turn.parts if (item := self._item(one)) is not None]
        while items and items[-1].get("type") == "reasoning":
            items.pop()
        return items

    def _item(self, one: TurnPart) -> _Item | None:
        part, is_own = one.part, one.origin == "openai-responses"
        match part:
            case TextPart(text=text, item=item):
                if is_own and self._keeps_ids:
                    return item
                message = {"type": "message", "role": "assistant", "content": text}
                return message if text else None
            case ThinkingPart(item=item):
                return item if is_own and _has_own_content(part) else None
            case CallPart():
                return self._call(part, is_own=is_own)
            case OpaquePart(item=item):
                return item if is_own and item.get("type") not in _INPUT_PARTS else None
            case ResultPart(item=item) if is_own:  # a call that the provider ran
                return item
            case _:  # other results are part of their call's item
                return None

    def _call(self, part: CallPart, *, is_own: bool) -> _Item | None:
        item: _Item = part.item or {}
        if (
            is_own
            and not self._keeps_ids
            and part.kind not in RUN_BY_PROVIDER
            and item.get("type") not in _REQUIRES_ID
        ):
            item = {name: value for name, value in item.items() if name != "id"}
        match part.kind:
            case "mcp" | "code" | "server" if not is_own or part.verdict != "complete":
                return None
            case "server":
                return item
            case "mcp":
                return {**item, "arguments": arguments_text(part)}
            case "code":
                return {**item, "code": part.raw}
        ids = {
            "call_id": self._turn.wire_ids[part.call_id],
            "name": wire_name(part.name, self._offered),
        }
        if part.kind == "custom":
            call = item if is_own else {"type": "custom_tool_call"}
            return {**call, **ids, "input": part.raw}
        if part.kind == "client" and is_own and part.verdict == "complete":
            id_field = "id" if item.get("type") == "mcp_approval_request" else "call_id"
            # Some fields may be null in a response but not in a request.
            given = {name: value for name, value in item.items() if value is not None}
            return {**given, id_field: ids["call_id"]}
        if part.kind == "patch" and is_own and part.verdict == "complete":
            return {**item, "call_id": ids["call_id"], "operation": part.arguments}
        call = item if is_own and part.kind == "function" else {"type": "function_call"}
        return {**call, **ids, "arguments": arguments_text(part)}


def _has_own_content(part: ThinkingPart) -> bool:
    """Return True if a reasoning item contains its content. The API does not store it."""
    item = part.item or {}
    return bool(item.get("encrypted_content") or item.get("content"))


def _user(turn: Turn) -> list[_Item]:
    items: list[_Item] = []
    parts: list[_Item] = []
    for answer in turn.answers:
        item, note = _output(answer)
        items.append(item)
        if note:
            parts.append({"type": "input_text", "text": note})
    for one in turn.parts:
        match one.part:
            case TextPart(text=text) if text:
                parts.append({"type": "input_text", "text": text})
            case OpaquePart(item=item) if one.origin == "openai-responses":
                (parts if item["type"] in _INPUT_PARTS else items).append(item)
    if parts:
        items.append({"type": "message", "role": "user", "content": parts})
    return items


def _output(answer: Answer) -> tuple[_Item, str]:
    """Return the item that answers a call, and a note for the model that the item cannot hold."""
    call, wire_id, result = answer
    item: _Item = call.item or {}
    output: _Item = {"call_id": wire_id, "output": _error_text(result)}
    note = ""
    is_own = origin_of(item) == "openai-responses"
    is_whole = is_own and call.verdict == "complete"
    if call.kind == "custom":
        output["type"] = "custom_tool_call_output"
    elif call.kind == "patch" and is_whole:
        output["type"] = "apply_patch_call_output"
        output["status"] = "failed" if result.failed else "completed"
    elif call.kind == "client" and is_whole:
        output, note = _client_output(item, answer)
    else:
        output["type"] = "function_call_output"
    if is_own and item.get("caller") is not None:
        output["caller"] = item["caller"]  # a program that waits for the result
    return output, note


def _client_output(item: _Item, answer: Answer) -> tuple[_Item, str]:
    """Return the output of a call to a tool that the API defines and the client runs."""
    call, wire_id, result = answer
    text = _error_text(result)
    note = f"{item['type']} {wire_id}: {text}"
    match item["type"]:
        case "shell_call":
            content = {
                "stdout": "" if result.failed else text,
                "stderr": text if result.failed else "",
                "outcome": {"type": "exit", "exit_code": int(result.failed)},
            }
            output = {"type": "shell_call_output", "call_id": wire_id, "output": [content]}
            limit = arguments_object(call).get("max_output_length")
            return output if limit is None else {**output, "max_output_length": limit}, ""
        case "local_shell_call":  # its ``id`` is the ``call_id`` of the call
            output = {"type": "local_shell_call_output", "id": wire_id, "output": json.dumps(text)}
            return output, ""
        case "mcp_approval_request":
            # The agent's tool approves a request only by returning True.
            approves = result.result is True and not result.failed
            output = {"type": "mcp_approval_response", "approval_request_id": wire_id}
            return {**output, "approve": approves, "reason": None if approves else text}, ""
        case "tool_search_call":
            output = {"type": "tool_search_output", "call_id": wire_id, "execution": "client"}
            output["status"] = "completed"
            if isinstance(result.result, list) and not result.failed:
                return {**output, "tools": result.result}, ""
            return {**output, "tools": []}, note
        case _:
            # The output must be a screenshot, and the API has no form for an error. So a blank
            # image is sent, and the error in a message after it.
            output = {"type": "computer_call_output", "call_id": wire_id}
            if checks := item.get("pending_safety_checks"):
                # The arguments showed them. Unacknowledged, they block the conversation.
                output["acknowledged_safety_checks"] = checks
            match result.result:
                case {"type": "computer_screenshot"} as screenshot if not result.failed:
                    return {**output, "output": screenshot}, ""
                case _:
                    blank = {"type": "computer_screenshot", "image_url": _BLANK_IMAGE}
                    return {**output, "output": blank}, note


def _tool(tool: OfferedTool) -> dict[str, Any]:
    schema = schema_of(tool)
    form = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": schema,
        # By default, the API would change the schema to be strict.
        "strict": _is_strict(schema) if tool.strict is None else tool.strict,
    }
    return form | loading_options(tool, unknown="code_execution")


def _is_reasoning_model(model: str) -> bool:
    """Return True for a reasoning model of OpenAI. A gateway may add a prefix to its name."""
    return not _WITHOUT_REASONING.match(_own_name(model))


def _min_openai_effort(model: str) -> Effort | None:
    """Return the lowest effort of a model; None if it has no effort setting."""
    if not _is_reasoning_model(model):
        return None
    name = _own_name(model)
    if _MIN_LOW.match(name):
        return "low"
    return "minimal" if _MIN_MINIMAL.match(name) else "none"


def _own_name(model: str) -> str:
    return model.rpartition("/")[2].removeprefix("ft:")


class ChatCompatibility(Struct, frozen=True, kw_only=True):
    """Differences between Chat Completions servers. The defaults work with most of them."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    has_stream_options: bool = True  # whether usage is requested with ``stream_options``
    returned_fields: frozenset[str] = frozenset(
        {"reasoning_content", "reasoning", "reasoning_details", "extra_content"}
    )
    """Non-standard response fields that the server accepts back. It may reject others."""
    required_thinking_field: str = ""
    """A field that each assistant message must have. DeepSeek rejects messages without it."""
    effort_field: Literal["reasoning_effort", "reasoning"] = "reasoning_effort"
    """The field for the effort. OpenRouter has an object."""
    no_thinking: Mapping[str, Any] | None = None
    """Fields that disable thinking, if an effort does not. DeepSeek has a switch."""
    min_effort: Callable[[str], Effort | None] = lambda _: "none"
    """The effort that disables thinking for a model; None if the model has no effort setting."""
    fixed_thinking: str = ""
    """Models that reject an effort: a regular expression for the start of their names."""
    no_thinking_with_tools: str = ""
    """Models that reject tools unless thinking is disabled, as above. OpenAI's newer models think
    with tools only in the Responses API."""
    content_with_calls: bool = True  # whether an assistant message may have both text and calls
    call_ids: str = r"(?s:.+)"  # a regular expression for a whole call ID
    bridge: str = ""
    """Assistant text that is inserted between results and user text. Mistral requires one."""


CHAT_COMPATIBILITY: Final[Mapping[str, ChatCompatibility]] = {
    "openai": ChatCompatibility(
        max_tokens_field="max_completion_tokens",
        system_role="developer",
        returned_fields=frozenset(),
        min_effort=_min_openai_effort,
        # From 5.2 on, except chat models, which do not think at all.
        no_thinking_with_tools=r"(?:ft:)?gpt-(?:5\.(?:[2-9]|\d\d)|[6-9])(?!\d)(?!.*-chat)",
        call_ids=r"(?s:.{1,40})",
    ),
    "deepseek": ChatCompatibility(
        returned_fields=frozenset({"reasoning_content"}),
        required_thinking_field="reasoning_content",
        no_thinking={"thinking": {"type": "disabled"}},
    ),
    "openrouter": ChatCompatibility(effort_field="reasoning"),
    "groq": ChatCompatibility(
        max_tokens_field="max_completion_tokens", returned_fields=frozenset()
    ),
    "mistral": ChatCompatibility(
        has_stream_options=False,  # it always sends usage
        returned_fields=frozenset(),
        # Some models accept both, some respond with status 422, and none needs the text.
        content_with_calls=False,
        call_ids=r"[a-zA-Z0-9]{9}",
        bridge="Understood.",
    ),
    "xai": ChatCompatibility(
        returned_fields=frozenset({"reasoning_content"}),
        # Up to 4.2, with a few exceptions.
        fixed_thinking=r"grok-(?:2|3(?!-mini)|4(?!\.)|4\.[0-2](?!.*-multi-agent)|code-fast)",
    ),
}
"""Known servers, by the name of their provider."""


class ChatApi(_OpenAiApi):
    """``POST /chat/completions``."""

    protocol: ProtocolName = "openai-chat"
    path = "/chat/completions"

    def __init__(self, server: ChatCompatibility | None = None) -> None:
        self.server: ChatCompatibility = server or ChatCompatibility()

    def body(self, model: str, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a streaming request."""
        settings = request.settings
        messages = _MessageWriter(request, self.server).messages()
        if not messages:
            raise UsageError("request has no content. Add a message with text.")
        if request.instructions.strip():
            system = {"role": self.server.system_role, "content": request.instructions}
            messages.insert(0, system)
        body: dict[str, Any] = {"model": model, "messages": messages, "stream": True}
        if self.server.has_stream_options:
            body["stream_options"] = {"include_usage": True}
        body |= sampling_of(settings, self.server.max_tokens_field, "stop")
        body |= self._thinking(model, request)
        body |= _openai_tools(request, _chat_tool, lambda name: {"function": {"name": name}})
        return {**encodable(body), **settings.extra}

    def _thinking(self, model: str, request: ModelRequest) -> dict[str, Any]:
        settings, server = request.settings, self.server
        effort = effort_of(settings)
        if (
            request.tools
            and server.no_thinking_with_tools
            and re.match(server.no_thinking_with_tools, model)
        ):
            if effort not in (None, "none"):
                raise UsageError(
                    f"{model} cannot use thinking with tools in Chat Completions. Use "
                    f"'openai-responses:{model}', or leave thinking unset."
                )
            effort = "none"
        if effort == "none":
            if server.no_thinking is not None:
                return dict(server.no_thinking)
            effort = server.min_effort(model)
        if effort is None:
            return {}
        if server.fixed_thinking and re.match(server.fixed_thinking, model):
            raise UsageError(
                f"{model} does not accept a thinking effort. Leave thinking unset, or pass "
                f"extra={{'{_EFFORT}': '{effort}'}} to send it anyway."
            )
        if server.effort_field == _EFFORT:
            return {_EFFORT: effort}
        is_budget = isinstance(settings.thinking, int) and settings.thinking > 0
        return {"reasoning": {"max_tokens": settings.thinking} if is_budget else {"effort": effort}}


class _MessageWriter:
    def __init__(self, request: ModelRequest, server: ChatCompatibility) -> None:
        self._server = server
        self._offered = {tool.name for tool in request.tools}
        self._turns = turns_of(request.messages, CallIds(server.call_ids, unique=False))

    def messages(self) -> list[_Item]:
        messages: list[_Item] = []
        for turn in self._turns:
            for message in self._user(turn) if turn.role == "user" else self._assistant(turn):
                last = messages[-1] if messages else {}
                if last.get("role") == message["role"] != "tool":
                    for name in message.keys() - {"role"}:
                        # The parts between them could not be sent.
                        last[name] = last[name] + message[name] if name in last else message[name]
                    continue
                if last.get("role") == "tool" and message["role"] == "user" and self._server.bridge:
                    bridge = _text_part(self._server.bridge)
                    messages.append({"role": "assistant", "content": [bridge]})
                messages.append(message)
        return [self._with_content(message) for message in messages]

    def _with_content(self, message: _Item) -> _Item:
        """Return a message whose content is a text, or a list if not all of its parts are text."""
        parts = message["content"]
        if all(part["type"] == "text" for part in parts):
            message["content"] = "\n\n".join(part["text"] for part in parts)
        if message["role"] != "assistant":
            return message
        if "tool_calls" in message and not (parts and self._server.content_with_calls):
            message["content"] = None
        required = self._server.required_thinking_field
        return {required: " ", **message} if required else message  # it may not be empty, either

    def _user(self, turn: Turn) -> list[_Item]:
        messages: list[_Item] = []
        for answer in turn.answers:
            result = {"role": "tool", "tool_call_id": answer.wire_id}
            messages.append({**result, "content": [_text_part(_error_text(answer.result))]})
        parts: list[_Item] = []
        for one in turn.parts:
            match one.part:
                case TextPart(text=text) if text:
                    parts.append(_text_part(text))
                case OpaquePart(item=item) if one.origin == "openai-chat" and "type" in item:
                    parts.append(item)
        return [*messages, {"role": "user", "content": parts}] if parts else messages

    def _assistant(self, turn: Turn) -> list[_Item]:
        texts: list[tuple[Message, str]] = []
        calls: list[_Item] = []
        thinking: _Item = {}
        for one in turn.parts:
            match one.part:
                case TextPart(text=text) if text:
                    texts.append((one.message, text))
                case ThinkingPart() | OpaquePart():
                    self._add_thinking(one.part, thinking)
                case CallPart(kind=kind) if kind not in RUN_BY_PROVIDER:
                    calls.append(self._call(one.part, turn.wire_ids[one.part.call_id]))
                case _:  # a call that its provider ran, or its result
                    pass
        if not texts and not calls:
            return []
        messages = groupby(texts, key=lambda one: id(one[0]))
        content = [_text_part("".join(text for _, text in pieces)) for _, pieces in messages]
        message = {"role": "assistant", "content": content, **thinking}
        return [{**message, "tool_calls": calls} if calls else message]

    def _add_thinking(self, part: ThinkingPart | OpaquePart, thinking: dict[str, Any]) -> None:
        """Add thinking of this API, in the field in which it was received."""
        item = part.item or {}
        if origin_of(item) != "openai-chat":
            return
        if _DETAILS in item and _DETAILS in self._server.returned_fields:
            thinking[_DETAILS] = thinking.get(_DETAILS, []) + item[_DETAILS]
        field = item.get("field")
        if field in self._server.returned_fields and isinstance(part, ThinkingPart):
            thinking[field] = thinking.get(field, "") + part.text

    def _call(self, part: CallPart, wire_id: str) -> dict[str, Any]:
        name = wire_name(part.name, self._offered)
        item = part.item or {}
        call: dict[str, Any]
        if part.kind == "custom" and "type" not in item:
            custom = {"name": name, "input": part.raw}
            call = {"id": wire_id, "type": "custom", "custom": custom}
        else:
            function = {"name": name, "arguments": arguments_text(part)}
            call = {"id": wire_id, "type": "function", "function": function}
        if "extra_content" in item and "extra_content" in self._server.returned_fields:
            call["extra_content"] = item["extra_content"]
        return call


def _text_part(text: str) -> _Item:
    return {"type": "text", "text": text}


def _chat_tool(tool: OfferedTool) -> dict[str, Any]:
    function = {"name": tool.name, "parameters": schema_of(tool), "description": tool.description}
    return {"type": "function", "function": set_fields(function | {"strict": tool.strict})}


def _openai_tools(
    request: ModelRequest,
    tool: Callable[[OfferedTool], dict[str, Any]],
    chosen: Callable[[str], dict[str, Any]],
) -> dict[str, Any]:
    """Return the fields about tools. The APIs differ in the forms of a tool and of a choice."""
    settings = request.settings
    offered = [*map(tool, request.tools), *map(dict, settings.provider_tools)]
    if not offered:
        return {}
    fields: dict[str, Any] = {"tools": offered}
    if (name := choice_of(request)) is not None:
        fields["tool_choice"] = _OPENAI_CHOICES.get(name) or {"type": "function", **chosen(name)}
    if settings.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = settings.parallel_tool_calls
    return fields


def _is_strict(schema: Mapping[str, Any]) -> bool:
    """Return True if OpenAI accepts a schema as strict: each object lists all of its properties.

    In doubt, return False: OpenAI accepts any schema that is not strict.
    """
    return schema.get("type") == "object" and "anyOf" not in schema and _is_strict_below(schema)


def _is_strict_below(schema: object) -> bool:
    if not isinstance(schema, Mapping) or schema.keys() - _STRICT_KEYWORDS:
        return False
    if "$ref" in schema:
        return len(schema) == 1  # not even a description is allowed beside it
    types = schema.get("type")
    types = [types] if isinstance(types, str) else types
    if not types and not schema.get("anyOf"):
        return False  # any type is allowed, also with an enum
    types = types or []
    properties = schema.get("properties")
    if "object" in types or properties is not None:
        if not isinstance(properties, Mapping) or schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required") or ()) != set(properties):
            return False
    below = [*(properties or {}).values(), *(schema.get("$defs") or {}).values()]
    below += schema.get("anyOf") or []
    if "items" in schema:
        below.append(schema["items"])
    elif "array" in types:
        return False
    return all(map(_is_strict_below, below))


def _error_text(part: ResultPart) -> str:
    """Return the result for an API that has no field for a failed call."""
    text = result_text(part)
    return f"Error: {text}" if part.failed else text
