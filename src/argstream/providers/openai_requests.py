"""Requests to OpenAI's Responses API, and to Chat Completions and the servers that imitate it.

In Chat Completions, a message of the assistant has one text and a list of calls; each result is a
message of its own. Thinking has no place in the standard: servers that want it back say it in a
field of their own, and get it back in that field. What else differs between servers is in
``CHAT_COMPATIBILITY``. In Responses, everything is an item, and the API's own items go back
unchanged.
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
    ModelSettings,
    OfferedTool,
    Said,
    Turn,
    arguments_object,
    arguments_text,
    choice_of,
    effort_of,
    origin_of,
    result_text,
    schema_of,
    sendable,
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

# Of OpenAI's models: those that do not think, and those that cannot be kept from it.
_WITHOUT_REASONING: Final = re.compile(r"gpt-[34]|chatgpt-|.*-chat")
_AT_LEAST_LOW: Final = re.compile(r"o\d|.*-codex")
_AT_LEAST_MINIMAL: Final = re.compile(r"gpt-5(?!\.)")
# What structured outputs understand, of which none changes the meaning of another.
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


class ResponsesApi:
    """``POST /responses``."""

    protocol: ProtocolName = "openai-responses"
    path = "/responses"

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers that the API needs, with the key if there is one."""
        return {} if key is None else {"authorization": f"Bearer {key}"}

    def body(self, model: str, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a request for a stream."""
        offered = {tool.name for tool in request.tools}
        turns = turns_of(request.messages, CallIds(r"(?s:.{1,64})", unique=True))
        items: list[_Item] = []
        for turn in turns:
            items += _user(turn) if turn.role == "user" else _AssistantItems(turn, offered).items()
        if not items:
            raise UsageError("there is nothing to ask: give the model a message with text")
        body: dict[str, Any] = {"model": model, "input": items, "stream": True, "store": False}
        if _reasons(model):  # others refuse to be asked for what they would encrypt
            body["include"] = ["reasoning.encrypted_content"]
        if request.instructions.strip():
            body["instructions"] = sendable(request.instructions)
        body |= _sampling(model, request.settings)
        body |= _openai_tools(request, tool=_tool, choice=_choice)
        return {**body, **request.settings.extra}


class _AssistantItems:
    def __init__(self, turn: Turn, offered: set[str]) -> None:
        self._turn = turn
        self._offered = offered
        # What a thought led to is known by its id. If the thought cannot go back, nor can that.
        self._keeps_ids = not any(
            isinstance(said.part, ThinkingPart)
            and said.origin == "openai-responses"
            and not _can_return(said.part)
            for said in turn.said
        )

    def items(self) -> list[_Item]:
        """Return the items in order, without thoughts that led to nothing."""
        items: list[_Item] = []
        for said in self._turn.said:
            item = self._item(said)
            if item is not None:
                items.append(item)
        while items and items[-1].get("type") == "reasoning":
            items.pop()
        return items

    def _item(self, said: Said) -> _Item | None:
        part, is_own = said.part, said.origin == "openai-responses"
        match part:
            case TextPart(text=text, item=item):
                if is_own and self._keeps_ids:
                    return item
                message = {"type": "message", "role": "assistant", "content": sendable(text)}
                return message if text else None
            case ThinkingPart(item=item):
                return item if is_own and _can_return(part) else None
            case CallPart():
                return self._call(part, is_own=is_own)
            case OpaquePart(item=item):
                return item if is_own and item.get("type") not in _INPUT_PARTS else None
            case ResultPart(item=item) if is_own:  # of a call that the provider ran
                return item
            case _:  # other results are in the item of their call
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
                return {**item, "code": sendable(part.raw)}
            case _:
                pass
        ids = {
            "call_id": self._turn.wire_ids[part.call_id],
            "name": wire_name(part.name, self._offered),
        }
        if part.kind == "custom":
            call = item if is_own else {"type": "custom_tool_call"}
            return {**call, **ids, "input": sendable(part.raw)}
        if part.kind == "client" and is_own and part.verdict == "complete":
            id_field = "id" if item.get("type") == "mcp_approval_request" else "call_id"
            # Some fields may be null in a response and not in a request.
            given = {name: value for name, value in item.items() if value is not None}
            return {**given, id_field: ids["call_id"]}
        if part.kind == "patch" and is_own and part.verdict == "complete":
            return {**item, "call_id": ids["call_id"], "operation": part.arguments}
        call = item if is_own and part.kind == "function" else {"type": "function_call"}
        return {**call, **ids, "arguments": arguments_text(part)}


def _can_return(part: ThinkingPart) -> bool:
    """Return True if a thought has its content with it: the API stored nothing."""
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
    for said in turn.said:
        match said.part:
            case TextPart(text=text) if text:
                parts.append({"type": "input_text", "text": sendable(text)})
            case OpaquePart(item=item) if said.origin == "openai-responses":
                (parts if item["type"] in _INPUT_PARTS else items).append(item)
            case _:
                pass
    if parts:
        items.append({"type": "message", "role": "user", "content": parts})
    return items


def _output(answer: Answer) -> tuple[_Item, str]:
    """Return the item that answers a call, and what the item cannot tell the model."""
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
        output["caller"] = item["caller"]  # a program that waits for it
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
            # A tool of the agent approves a request by returning True, and nothing else does.
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
            # A computer answers with a screenshot, and the API has no form for an error. A blank
            # image is a valid answer, and the model reads the reason in a message after it.
            output = {"type": "computer_call_output", "call_id": wire_id}
            if checks := item.get("pending_safety_checks"):
                # They were among the arguments. Unacknowledged, they would block the conversation.
                output["acknowledged_safety_checks"] = checks
            match result.result:
                case {"type": "computer_screenshot"} as screenshot if not result.failed:
                    return {**output, "output": screenshot}, ""
                case _:
                    blank = {"type": "computer_screenshot", "image_url": _BLANK_IMAGE}
                    return {**output, "output": blank}, note


def _sampling(model: str, settings: ModelSettings) -> dict[str, Any]:
    if settings.stop_sequences:
        raise UsageError("stop_sequences: the Responses API has none; use the Chat API for them")
    effort = effort_of(settings)
    if effort == "none":
        effort = _least_effort_of_openai(model)
    fields = {
        "max_output_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "reasoning": None if effort is None else {"effort": effort},
    }
    return {name: value for name, value in fields.items() if value is not None}


def _tool(tool: OfferedTool) -> dict[str, Any]:
    schema = schema_of(tool)
    return {
        "type": "function",
        "name": tool.name,
        "description": sendable(tool.description),
        "parameters": schema,
        "strict": _is_strict(schema),  # left out, the API would make it so, and change the schema
    }


def _choice(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name}


def _reasons(model: str) -> bool:
    """Return True for a reasoning model of OpenAI. A gateway may have lengthened its name."""
    return not _WITHOUT_REASONING.match(_own_name(model))


def _least_effort_of_openai(model: str) -> Effort | None:
    """Return the least effort of a model; None for one that has no effort setting."""
    if not _reasons(model):
        return None
    name = _own_name(model)
    if _AT_LEAST_LOW.match(name):
        return "low"
    return "minimal" if _AT_LEAST_MINIMAL.match(name) else "none"


def _own_name(model: str) -> str:
    return model.rpartition("/")[2].removeprefix("ft:")


class ChatCompatibility(Struct, frozen=True, kw_only=True):
    """What differs between the servers of this API. What is not said works with most."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    tells_usage: bool = True
    """Whether it knows ``stream_options``: then it says what a turn cost."""
    takes_back: frozenset[str] = frozenset(
        {"reasoning_content", "reasoning", "reasoning_details", "extra_content"}
    )
    """Which fields of its answers that no standard has it takes back. Others may be refused."""
    wants_thinking: str = ""
    """A field of thinking that each message of the assistant must have: DeepSeek refuses one that
    was made elsewhere without."""
    thinking_field: Literal["reasoning_effort", "reasoning"] = "reasoning_effort"
    """Where it is told how much to think: OpenRouter has an object for it."""
    no_thinking: Mapping[str, Any] | None = None
    """What it is told if it shall not think, where that is no effort: DeepSeek has a switch."""
    least_effort: Callable[[str], Effort | None] = lambda _: "none"
    """What a model is told that shall not think; None: nothing, since it knows of no effort."""
    fixed_thinking: str = ""
    """Which of its models cannot be told how much to think, and refuse it: a regular expression for
    how their names begin."""
    silent_with_tools: str = ""
    """Which of its models do not think here when they have tools, and have to be told so: they
    refuse tools otherwise. OpenAI's newer ones do so only in its Responses API."""
    content_with_calls: bool = True
    """Whether a message of the assistant may have a text beside its calls."""
    call_ids: str = r"(?s:.+)"
    """Which ids of calls it takes: a regular expression for the whole of one."""
    bridge: str = ""
    """What the assistant is made to say between results and a text of the user. Mistral refuses a
    user who speaks right after a tool."""


CHAT_COMPATIBILITY: Final[Mapping[str, ChatCompatibility]] = {
    "openai": ChatCompatibility(
        max_tokens_field="max_completion_tokens",
        system_role="developer",
        takes_back=frozenset(),
        least_effort=_least_effort_of_openai,
        # From 5.2 on; those that only chat do not think at all.
        silent_with_tools=r"(?:ft:)?gpt-(?:5\.(?:[2-9]|\d\d)|[6-9])(?!\d)(?!.*-chat)",
        call_ids=r"(?s:.{1,40})",
    ),
    "deepseek": ChatCompatibility(
        takes_back=frozenset({"reasoning_content"}),
        wants_thinking="reasoning_content",
        no_thinking={"thinking": {"type": "disabled"}},
    ),
    "openrouter": ChatCompatibility(thinking_field="reasoning"),
    "groq": ChatCompatibility(max_tokens_field="max_completion_tokens", takes_back=frozenset()),
    "mistral": ChatCompatibility(
        tells_usage=False,  # it does so unasked
        takes_back=frozenset(),
        # Some of its models take both, some answer with 422, and none misses the text.
        content_with_calls=False,
        call_ids=r"[a-zA-Z0-9]{9}",
        bridge="Understood.",
    ),
    "xai": ChatCompatibility(
        takes_back=frozenset({"reasoning_content"}),
        # Up to 4.2, but for a few.
        fixed_thinking=r"grok-(?:2|3(?!-mini)|4(?!\.)|4\.[0-2](?!.*-multi-agent)|code-fast)",
    ),
}
"""Of the servers that are known, by the name of their provider."""


class ChatApi:
    """``POST /chat/completions``."""

    protocol: ProtocolName = "openai-chat"
    path = "/chat/completions"

    def __init__(self, habits: ChatCompatibility | None = None) -> None:
        self.habits = habits or ChatCompatibility()

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers that the API needs, with the key if there is one."""
        return {} if key is None else {"authorization": f"Bearer {key}"}

    def body(self, model: str, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a request for a stream."""
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
        body |= _openai_tools(request, tool=_chat_tool, choice=_chat_choice)
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
    def __init__(self, request: ModelRequest, habits: ChatCompatibility) -> None:
        self._habits = habits
        self._offered = {tool.name for tool in request.tools}
        self._turns = turns_of(request.messages, CallIds(habits.call_ids, unique=False))

    def messages(self) -> list[dict[str, Any]]:
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
            {"role": "tool", "tool_call_id": answer.wire_id, "content": _error_text(answer.result)}
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
    """Return what a user says: a text, or parts if not all of it is text."""
    parts: list[dict[str, Any]] = []
    for one in said:
        match one.part:
            case TextPart(text=text) if text:
                parts.append({"type": "text", "text": sendable(text)})
            case OpaquePart(item=item) if one.origin == "openai-chat":
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


def _chat_tool(tool: OfferedTool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "parameters": schema_of(tool)}
    if tool.description:
        function["description"] = sendable(tool.description)
    return {"type": "function", "function": function}


def _chat_choice(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def _openai_tools(
    request: ModelRequest,
    *,
    tool: Callable[[OfferedTool], dict[str, Any]],
    choice: Callable[[str], dict[str, Any]],
) -> dict[str, Any]:
    """Return the fields about tools, which OpenAI's APIs share except for two forms.

    ``tool`` writes a tool, and ``choice`` that the one of this name is to be called.
    """
    if not request.tools:
        return {}
    settings = request.settings
    fields: dict[str, Any] = {"tools": [tool(offered) for offered in request.tools]}
    if (chosen := choice_of(request)) is not None:
        fields["tool_choice"] = _OPENAI_CHOICES.get(chosen) or choice(chosen)
    if settings.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = settings.parallel_tool_calls
    return fields


def _is_strict(schema: Mapping[str, Any]) -> bool:
    """Return True if OpenAI accepts a schema as strict: each object lists all of its properties.

    In doubt it is not: what is not strict is taken in any case.
    """
    return schema.get("type") == "object" and "anyOf" not in schema and _is_strict_below(schema)


def _is_strict_below(schema: object) -> bool:
    if not isinstance(schema, Mapping) or schema.keys() - _STRICT_KEYWORDS:
        return False
    if "$ref" in schema:
        return len(schema) == 1  # not even a description may be beside it
    types = schema.get("type")
    types = [types] if isinstance(types, str) else types
    if not types and not schema.get("anyOf"):
        return False  # any value would do, also if it says which
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
    """Return the result for an API in which only the text can say that a call failed."""
    text = result_text(part)
    return f"Error: {text}" if part.failed else text
