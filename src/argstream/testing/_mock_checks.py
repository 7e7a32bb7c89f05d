"""What a provider refuses: the checks of a request that find real bugs, for each API.

They are about form: what must be there, the shape of tools in that API, and that each result
belongs to a call. What a model makes of the request is not their business.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from argstream.testing._mock_memory import Memory
from argstream.testing._mock_settings import anthropic_settings, chat_settings, strict_problems
from argstream.testing._mock_thoughts import anthropic_thoughts, chat_thoughts, responses_thoughts
from argstream.testing._mock_wire import Problem

__all__ = ["anthropic_problems", "chat_problems", "responses_problems"]

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_LONGEST_CHAT_ID: Final = 40
_CHAT_ROLES: Final = ("developer", "system", "user", "assistant", "tool", "function")
_SAID: Final = ("tool_calls", "function_call", "refusal", "audio")
"""What a message of the assistant has if it has no content."""


def anthropic_problems(
    headers: Mapping[str, str], body: dict[str, Any], memory: Memory | None
) -> list[Problem]:
    """Check a request to the Messages API."""
    if not headers.get("x-api-key") and not headers.get("authorization"):
        return [Problem("x-api-key: this header is required", 401)]
    problems: list[str] = []
    if not headers.get("anthropic-version"):
        problems.append("anthropic-version: this header is required")
    problems += _head(body)
    most = body.get("max_tokens")
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        problems.append("max_tokens: a number of 1 or more is required")
    for where, tool in _tools(body, problems):
        problems += _name(f"{where}.name", tool.get("name"))
        if tool.get("type") in (None, "custom"):  # others are Anthropic's own and have no schema
            problems += _schema(f"{where}.input_schema", tool.get("input_schema"))
    problems += _same_names(tool.get("name") for _, tool in _tools(body, []))
    messages = list(_objects(body, "messages", problems))
    problems += anthropic_settings(headers, body)
    problems += _anthropic_messages(messages, has_tools=bool(body.get("tools")))
    problems += anthropic_thoughts(messages, body, memory)
    return [Problem(problem) for problem in problems]


def _anthropic_messages(
    messages: list[tuple[str, dict[str, Any]]], *, has_tools: bool
) -> Iterator[str]:
    asked: list[object] = []  # ids of the calls of the message before
    seen: list[object] = []
    blocks: list[Any] = []
    for where, message in messages:
        if message.get("role") not in ("user", "assistant", "system"):
            yield f'{where}.role: must be "user" or "assistant"'
        content = message.get("content")
        if not isinstance(content, str | list):
            yield f"{where}.content: must be a text or a list of blocks"
        if content == []:
            yield f"{where}.content: must have at least one block"
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for n, block in enumerate(blocks):
            yield from _block(f"{where}.content.{n}", block, asked)
        yield from _results(where, blocks, asked)
        asked = _ids(blocks, "tool_use", "id")
        if asked and not has_tools:
            yield f"{where}: a request with tool_use blocks must define tools"
        for id_ in asked:
            if id_ in seen:
                yield f"{where}: tool_use ids must be unique, and {id_!r} is there twice"
            seen.append(id_)
    yield from _without_result("messages", asked, [])
    if messages and messages[-1][1].get("role") == "assistant" and _ends_in_space(blocks):
        yield "messages: the final assistant content cannot end in white space"


def _ends_in_space(blocks: list[Any]) -> bool:
    match blocks:
        case [*_, {"type": "text", "text": str(text)}]:
            return text != text.rstrip()
        case _:
            return False


def _results(where: str, blocks: list[Any], asked: list[object]) -> Iterator[str]:
    """Check that the calls of the message before have one result each, before all else."""
    answered = _ids(blocks, "tool_result", "tool_use_id")
    yield from _without_result(where, asked, answered)
    for n, id_ in enumerate(answered):
        if id_ in answered[:n]:
            yield f"{where}: each tool_use must have a single result, and {id_!r} has two"
    others = [not (isinstance(one, dict) and one.get("type") == "tool_result") for one in blocks]
    if others != sorted(others):
        yield f"{where}: tool_result blocks must come first in their message"


def _block(where: str, block: object, asked: list[object]) -> Iterator[str]:
    match block:
        case {"type": "tool_use", "id": str(id_), "name": name, "input": dict()}:
            yield from _name(f"{where}.name", name)
            if not _ID.fullmatch(id_):
                yield f"{where}.id: must be letters, digits, _ and -"
        case {"type": "tool_use"}:
            yield f"{where}: a tool_use needs an id, a name and an input that is an object"
        case {"type": "tool_result", "tool_use_id": call_id}:
            if call_id not in asked:
                yield (
                    f"{where}: unexpected tool_use_id in a tool_result: {call_id}. Each must "
                    "belong to a tool_use of the message before"
                )
        case {"type": "tool_result"}:
            yield f"{where}: a tool_result needs a tool_use_id"
        case {"type": "text", "text": str(text)} if not text.strip():
            yield f"{where}: text must not be empty, nor only white space"
        case {"type": "thinking", "thinking": str(), "signature": str()}:
            pass
        case {"type": "thinking"}:
            yield f"{where}: a thinking block needs its signature"
        case {"type": str()}:
            pass
        case _:
            yield f"{where}: a block is an object with a type"


def _ids(blocks: list[Any], type_: str, field: str) -> list[object]:
    found = (block for block in blocks if isinstance(block, dict) and block.get("type") == type_)
    return [block.get(field) for block in found]


def _without_result(where: str, asked: list[object], answered: list[object]) -> Iterator[str]:
    if missing := [str(call_id) for call_id in asked if call_id not in answered]:
        yield f"{where}: tool_use ids without a tool_result right after: {', '.join(missing)}"


def chat_problems(
    headers: Mapping[str, str], body: dict[str, Any], memory: Memory | None
) -> list[Problem]:
    """Check a request to the Chat Completions API."""
    if refusal := _without_bearer(headers):
        return [refusal]
    problems = _head(body)
    for where, tool in _tools(body, problems):
        match tool:
            case {"type": "function", "function": dict(function)}:
                problems += _name(f"{where}.function.name", function.get("name"))
                if "parameters" in function:
                    problems += _schema(f"{where}.function.parameters", function["parameters"])
                if function.get("strict") is True:
                    parameters = function.get("parameters")
                    problems += strict_problems(f"{where}.function.parameters", parameters)
            case {"type": "custom", "custom": {"name": name}}:
                problems += _name(f"{where}.custom.name", name)
            case {"type": "function" | "custom" as type_}:
                problems.append(f"{where}.{type_}: this object is required; the name goes into it")
            case _:
                problems.append(f'{where}.type: must be "function" or "custom"')
    messages = list(_objects(body, "messages", problems))
    problems += chat_settings(body)
    problems += _chat_messages(messages)
    if memory is not None:
        problems += chat_thoughts(messages, memory)
    return [Problem(problem) for problem in problems]


def _chat_messages(messages: list[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    asked: list[str] = []  # ids of calls that no message has answered yet
    for where, message in messages:
        role = message.get("role")
        if role not in _CHAT_ROLES:
            yield f"{where}.role: must be one of {', '.join(_CHAT_ROLES)}"
        if role == "tool":
            call_id = message.get("tool_call_id")
            if call_id in asked:
                asked.remove(call_id)
            else:
                yield (
                    f"{where}.tool_call_id: {call_id!r} belongs to no call of the assistant's "
                    "message before it, or was answered already"
                )
            continue
        yield from _unanswered(asked)
        asked = []
        calls = message.get("tool_calls")
        if (
            role == "assistant"
            and not any(map(message.get, _SAID))
            and message.get("content") is None
        ):
            yield f"{where}.content: must not be null, if there are no tool_calls"
        if not isinstance(calls, list | None):
            yield f"{where}.tool_calls: must be a list"
        for m, call in enumerate(calls if isinstance(calls, list) else ()):
            place = f"{where}.tool_calls.{m}"
            match call:
                case {
                    "id": str(call_id),
                    "type": "function",
                    "function": {"arguments": str(), "name": name},
                }:
                    asked.append(call_id)
                    yield from _name(f"{place}.function.name", name)
                    if len(call_id) > _LONGEST_CHAT_ID:
                        yield f"{place}.id: must not be longer than {_LONGEST_CHAT_ID} characters"
                case {"id": str(call_id), "type": "custom"}:
                    asked.append(call_id)
                case _:
                    yield f"{place}: a call needs id, type, name, and arguments that are a text"
    yield from _unanswered(asked)


def _unanswered(asked: list[str]) -> Iterator[str]:
    if asked:
        yield f"messages: tool calls without a message of role tool: {', '.join(asked)}"


def responses_problems(
    headers: Mapping[str, str], body: dict[str, Any], memory: Memory | None
) -> list[Problem]:
    """Check a request to the Responses API."""
    if refusal := _without_bearer(headers):
        return [refusal]
    problems = _head(body)
    for where, tool in _tools(body, problems):
        if tool.get("type") == "function":
            problems += _name(f"{where}.name", tool.get("name"))
            if tool.get("parameters") is not None:
                problems += _schema(f"{where}.parameters", tool["parameters"])
            if tool.get("strict") is True:
                problems += strict_problems(f"{where}.parameters", tool.get("parameters"))
        elif not isinstance(tool.get("type"), str):
            problems.append(f"{where}.type: this is required")
    if not isinstance(body.get("input"), str) and not body.get("prompt"):
        items = list(_objects(body, "input", problems))
        problems += _responses_items(items, body, memory)
        problems += responses_thoughts(items, body, memory)
    return [Problem(problem) for problem in problems]


def _responses_items(
    items: list[tuple[str, dict[str, Any]]], body: dict[str, Any], memory: Memory | None
) -> Iterator[str]:
    continues = body.get("previous_response_id") or body.get("conversation")
    # What an earlier response called is not in the input; a recording does not tell what it was.
    known = list(memory.call_ids) if memory is not None and continues else []
    is_known = not continues or memory is not None
    calls: list[object] = []
    answered: list[object] = []
    for where, item in items:
        call_id = item.get("call_id")
        if item.get("type") == "function_call":
            calls.append(call_id)
        elif item.get("type") == "function_call_output":
            if is_known and call_id not in calls + known:
                yield f"{where}: no function call found for the output with call_id {call_id!r}"
            if call_id in answered:
                yield f"{where}: there is an output for the call {call_id!r} already"
            answered.append(call_id)
    for call_id in calls:
        if call_id not in answered:
            yield f"input: no output found for the function call {call_id!r}"
    for where, item in items:
        if item.get("type") != "function_call":
            continue
        yield from _name(f"{where}.name", item.get("name"))
        if not isinstance(item.get("arguments"), str):
            yield f"{where}.arguments: must be a text"
        if len(str(item.get("call_id"))) > 64:
            yield f"{where}.call_id: must not be longer than 64 characters"


def _without_bearer(headers: Mapping[str, str]) -> Problem | None:
    if headers.get("authorization") or headers.get("api-key"):
        return None
    return Problem("You did not give an API key: send it as Authorization: Bearer KEY", 401)


def _head(body: dict[str, Any]) -> list[str]:
    problems = []
    if not isinstance(body.get("model"), str) or not body["model"]:
        problems.append("model: this is required, and is a text")
    if not isinstance(body.get("stream"), bool | None):
        problems.append("stream: must be true or false")
    return problems


def _objects(
    body: dict[str, Any], name: str, problems: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the objects of a list that must not be empty, each with its place."""
    found = body.get(name)
    if not isinstance(found, list) or not found:
        problems.append(f"{name}: this is required, and is a list of at least one")
        return
    for n, item in enumerate(found):
        if isinstance(item, dict):
            yield f"{name}.{n}", item
        else:
            problems.append(f"{name}.{n}: must be an object")


def _tools(body: dict[str, Any], problems: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    if body.get("tools"):
        yield from _objects(body, "tools", problems)


def _name(where: str, name: object) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"{where}: a name is required, of up to 64 letters, digits, _ and -"


def _schema(where: str, schema: object) -> Iterator[str]:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield f'{where}: a JSON schema with "type": "object" is required'


def _same_names(names: Iterable[object]) -> Iterator[str]:
    seen = set()
    for name in names:
        if isinstance(name, str) and name in seen:
            yield f"tools: names must be unique, and {name!r} is there twice"
        if isinstance(name, str):
            seen.add(name)
