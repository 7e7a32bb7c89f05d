"""A request as OpenAI's Responses API wants it.

The input is a list of items, and what the API has said comes back as the items that it was. Nothing
is stored there: so a thought comes with what it encrypts, and goes back with it. The API checks
that a thought is followed by what it led to, and that what it led to is preceded by it.
"""

import json
from typing import Any, Final

from argstream.adapters import ProtocolName
from argstream.clients.apis._origins import origin_of
from argstream.clients.apis._thinking import effort_of, least_effort_of_openai, reasons
from argstream.clients.apis._tool_forms import is_strict, openai_tools, schema_of
from argstream.clients.apis._turns import Answer, CallIds, Said, Turn, turns_of, wire_name
from argstream.clients.apis._wording import (
    arguments_object,
    arguments_text,
    error_text,
    sendable,
)
from argstream.clients.request import ModelRequest, ModelSettings, OfferedTool
from argstream.deltas import RUN_BY_PROVIDER
from argstream.errors import UsageError
from argstream.history import CallPart, OpaquePart, ResultPart, TextPart, ThinkingPart

__all__ = ["ResponsesApi"]

_INPUT_PARTS: Final = ("input_image", "input_file")
_REQUIRES_ID: Final = {"local_shell_call", "computer_call", "mcp_approval_request"}
_BLANK_IMAGE: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgAB"
    "SK+kcQAAAABJRU5ErkJggg=="
)
"""One black pixel."""

_Item = dict[str, Any]


class ResponsesApi:
    """``POST /responses``."""

    protocol: ProtocolName = "openai-responses"
    path = "/responses"

    def headers(self, key: str | None) -> dict[str, str]:
        """Give the headers that it needs, with the key if there is one."""
        return {} if key is None else {"authorization": f"Bearer {key}"}

    def body(self, model: str, request: ModelRequest) -> dict[str, Any]:
        """Write a request for a stream."""
        offered = {tool.name for tool in request.tools}
        turns = turns_of(request.messages, CallIds(r"(?s:.{1,64})", unique=True))
        items: list[_Item] = []
        for turn in turns:
            items += _user(turn) if turn.role == "user" else _AssistantItems(turn, offered).items()
        if not items:
            raise UsageError("there is nothing to ask: give the model a message with text")
        body: dict[str, Any] = {"model": model, "input": items, "stream": True, "store": False}
        if reasons(model):  # others refuse to be asked for what they would encrypt
            body["include"] = ["reasoning.encrypted_content"]
        if request.instructions.strip():
            body["instructions"] = sendable(request.instructions)
        body |= _sampling(model, request.settings)
        body |= openai_tools(request, tool=_tool, choice=_choice)
        return {**body, **request.settings.extra}


class _AssistantItems:
    """Writes the items of one turn of the assistant."""

    def __init__(self, turn: Turn, offered: set[str]) -> None:
        self._turn = turn
        self._offered = offered
        # What a thought led to is known by its id. If the thought cannot go back, nor can that.
        self._keeps_ids = not any(
            isinstance(said.part, ThinkingPart) and _is_own(said) and not _can_return(said.part)
            for said in turn.said
        )

    def items(self) -> list[_Item]:
        """Give them in order, without thoughts that led to nothing."""
        items: list[_Item] = []
        for said in self._turn.said:
            item = self._item(said)
            if item is not None:
                items.append(item)
        while items and items[-1].get("type") == "reasoning":
            items.pop()
        return items

    def _item(self, said: Said) -> _Item | None:
        part, is_own = said.part, _is_own(said)
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


def _is_own(said: Said) -> bool:
    return origin_of(said.part.item, said.message.id) == "openai-responses"


def _can_return(part: ThinkingPart) -> bool:
    """Say whether a thought has what it is known by: nothing of it was stored."""
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
            case OpaquePart(item=item) if _is_own(said):
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
    output: _Item = {"call_id": wire_id, "output": error_text(result)}
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
    text = error_text(result)
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
        effort = least_effort_of_openai(model)
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
        "strict": is_strict(schema),  # left out, the API would make it so, and change the schema
    }


def _choice(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name}
