"""A request as Anthropic's Messages API wants it.

A message is a list of blocks, and what the API has said comes back as the blocks that it was. What
it refuses, and a history may well have: blocks of white space, a message that ends in a thought, a
call of its own tools without a result, ids that repeat.
"""

from typing import Any, Final

from argstream.adapters import ProtocolName
from argstream.clients.apis._origins import origin_of
from argstream.clients.apis._thinking import anthropic_thinking, check_while_thinking
from argstream.clients.apis._tool_forms import choice_of, schema_of
from argstream.clients.apis._turns import Answer, CallIds, Said, Turn, own_id, turns_of, wire_name
from argstream.clients.apis._wording import arguments_object, result_text, sendable
from argstream.clients.request import ModelRequest, ModelSettings, OfferedTool
from argstream.deltas import RUN_BY_PROVIDER
from argstream.errors import UsageError
from argstream.history import CallPart, OpaquePart, ResultPart, TextPart, ThinkingPart

__all__ = ["AnthropicApi"]

_MOST_TOKENS: Final = 8192
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_NOT_SAID_BY_A_MODEL: Final = ("image", "document", "search_result")
_SERVER_CALL: Final = "srvtoolu_"
"""How the ids of calls begin that Anthropic runs: of these nothing else may be kept."""

_BETA: Final = "anthropic-beta"

_Block = dict[str, Any]


class AnthropicApi:
    """``POST /v1/messages``."""

    protocol: ProtocolName = "anthropic"
    path = "/v1/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        """Give the headers that it needs, with the key if there is one."""
        headers = {"anthropic-version": "2023-06-01"}
        return headers if key is None else {**headers, "x-api-key": key}

    def body(self, model: str, request: ModelRequest) -> dict[str, Any]:
        """Write a request for a stream."""
        settings = request.settings
        writer = _Writer(request)
        messages = writer.messages()
        body: dict[str, Any] = {"model": model, "messages": messages, "stream": True}
        if request.instructions.strip():
            body["system"] = sendable(request.instructions)
        if writer.container is not None:
            body["container"] = writer.container
        body |= _sampling(settings)
        body |= self._thinking(model, request, messages)
        body |= _tools(request, writer.called)
        body |= settings.extra
        _make_room(body, settings)
        return body

    def _thinking(
        self, model: str, request: ModelRequest, messages: list[dict[str, Any]]
    ) -> dict[str, Any]:
        fields = anthropic_thinking(model, request.settings)
        thinking = fields.get("thinking", {})
        # With a budget, the API refuses a turn that did not begin with a thought.
        if "budget_tokens" in thinking and _goes_on_without_thought(messages):
            return {}
        if thinking.get("type") in ("enabled", "adaptive"):
            check_while_thinking(model, request.settings, has_tools=bool(request.tools))
        return fields


class _Writer:
    """Writes the messages of one request."""

    def __init__(self, request: ModelRequest) -> None:
        self._offered = {tool.name for tool in request.tools}
        self._turns = turns_of(request.messages, CallIds(r"[a-zA-Z0-9_-]{1,64}", unique=True))
        self._ran = {
            said.part.call_id
            for turn in self._turns
            for said in turn.said
            if isinstance(said.part, ResultPart) and _is_own(said)
        }
        self._sent: set[str] = set()  # ids of the calls of Anthropic's tools
        self.called: list[str] = []
        """The names of the tools that were called."""
        self.container: str | None = None
        """Where code ran, to be named again or its files are gone."""

    def messages(self) -> list[dict[str, Any]]:
        """Write all turns that have anything to say."""
        messages: list[dict[str, Any]] = []
        for turn in self._turns:
            is_last = turn is self._turns[-1]
            blocks = self._user(turn) if turn.role == "user" else self._assistant(turn, is_last)
            if not blocks:
                continue
            if not messages and turn.role == "assistant":
                messages.append({"role": "user", "content": [_text("(The conversation begins.)")]})
            if messages and messages[-1]["role"] == turn.role:
                messages[-1]["content"] += blocks
            else:
                messages.append({"role": turn.role, "content": blocks})
        if not messages:
            raise UsageError("there is nothing to ask: give the model a message with text")
        return messages

    def _user(self, turn: Turn) -> list[_Block]:
        blocks = [_result(answer) for answer in turn.answers]  # these must come first
        for said in turn.said:
            match said.part:
                case TextPart(text=text, item=item) if text.strip():
                    blocks.append(item if item is not None and _is_own(said) else _text(text))
                case OpaquePart(item=item) if _is_own(said) and "type" in item:
                    blocks.append(item)
                case _:
                    pass
        return blocks

    def _assistant(self, turn: Turn, is_last: bool) -> list[_Block]:  # noqa: FBT001 - private
        blocks: list[_Block] = []
        for said in turn.said:
            block = self._block(said, turn, is_last=is_last)
            if block is not None:
                blocks.append(block)
        while blocks and blocks[-1]["type"] in _THOUGHTS:
            blocks.pop()
        if is_last and blocks and blocks[-1]["type"] == "text":
            blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}
        return blocks

    def _block(self, said: Said, turn: Turn, *, is_last: bool) -> _Block | None:
        part, is_own = said.part, _is_own(said)
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
                return item if is_own and item["type"] not in _NOT_SAID_BY_A_MODEL else None

    def _call(self, part: CallPart, wire_id: str, *, is_own: bool) -> _Block:
        name = wire_name(part.name, self._offered)
        self.called.append(name)
        item = part.item if is_own and part.item is not None else {"type": "tool_use"}
        return {**item, "id": wire_id, "name": name, "input": arguments_object(part)}

    def _server_call(self, part: CallPart, *, is_own: bool, is_last: bool) -> _Block | None:
        """Give a call that Anthropic has run, or will when the turn goes on."""
        id_ = own_id(part)
        if not (is_own or id_.startswith(_SERVER_CALL)):
            return None
        if not (part.call_id in self._ran or (is_last and part.verdict == "complete")):
            return None
        self._sent.add(part.call_id)
        item: _Block = {"type": "server_tool_use", "id": id_, "name": part.name}
        if is_own and part.item is not None:
            item = part.item
        return {**item, "input": arguments_object(part)}


def _is_own(said: Said) -> bool:
    return origin_of(said.part.item, said.message.id) == "anthropic"


def _text(text: str) -> _Block:
    return {"type": "text", "text": sendable(text)}


def _result(answer: Answer) -> _Block:
    call, wire_id, result = answer
    block: _Block = {
        "type": "tool_result",
        "tool_use_id": wire_id,
        "content": result_text(result),
    }
    if result.failed:
        block["is_error"] = True
    toolset = (call.item or {}).get("toolset_name")
    return block if toolset is None else {**block, "toolset_name": toolset}


def _sampling(settings: ModelSettings) -> dict[str, Any]:
    fields = {
        "max_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop_sequences": list(settings.stop_sequences) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _tools(request: ModelRequest, called: list[str]) -> dict[str, Any]:
    """Give the tools. If there are none, those of the history: the API wants to know them."""
    settings = request.settings
    if not request.tools:
        if not called or "tools" in settings.extra:
            return {}
        known = [OfferedTool(name=name, schema={}) for name in dict.fromkeys(called)]
        return {"tools": [_tool(tool) for tool in known], "tool_choice": {"type": "none"}}
    tools: dict[str, Any] = {"tools": [_tool(tool) for tool in request.tools]}
    choice: dict[str, Any] = {}
    match choice_of(request):
        case None:
            pass
        case "auto" | "any" | "none" as type_:
            choice = {"type": type_}
        case name:
            choice = {"type": "tool", "name": name}
    if settings.parallel_tool_calls is not None and choice.get("type") != "none":
        is_alone = not settings.parallel_tool_calls
        choice = {"type": "auto", **choice, "disable_parallel_tool_use": is_alone}
    return {**tools, "tool_choice": choice} if choice else tools


def _tool(tool: OfferedTool) -> dict[str, Any]:
    form: dict[str, Any] = {"name": tool.name, "input_schema": schema_of(tool)}
    if tool.description:
        form["description"] = sendable(tool.description)
    if tool.eager_input_streaming is not None:
        form["eager_input_streaming"] = tool.eager_input_streaming
    return form


def _is_interleaved(settings: ModelSettings) -> bool:
    """Say whether it may think between calls: then the budget is that of all its answers."""
    # Whether they are headers at all is found out where they are sent.
    betas = (value for name, value in settings.headers.items() if str(name).lower() == _BETA)
    return any("interleaved-thinking" in str(value) for value in betas)


def _make_room(body: dict[str, Any], settings: ModelSettings) -> None:
    """Set the number of tokens that the API wants to be told, above what thinking may take."""
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    budget = budget if isinstance(budget, int) else 0
    most = body.setdefault("max_tokens", budget + _MOST_TOKENS)
    if settings.extra.keys() & {"thinking", "max_tokens"} or _is_interleaved(settings):
        return  # it is for who wrote it to know, or there is room in the next answers
    if most <= budget:
        raise UsageError(
            f"max_tokens is {most}, but thinking alone may take {budget}: give more tokens, or "
            "less to thinking"
        )


def _goes_on_without_thought(messages: list[dict[str, Any]]) -> bool:
    """Say whether a turn goes on that did not begin with a thought: it was begun elsewhere."""
    first: dict[str, Any] | None = None
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message
        elif not any(block["type"] == "tool_result" for block in message["content"]):
            break
    return first is not None and first["content"][0]["type"] not in _THOUGHTS
