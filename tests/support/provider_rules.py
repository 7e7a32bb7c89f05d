"""Validates requests the way Anthropic and OpenAI do, for tests of the requests that we write.

`MockProvider` checks the form of a request only. These rules also reject what the real APIs reject:
a result without its call, settings that exclude each other, and thinking that does not come back
unchanged. `strict_provider` starts a mock provider that applies them.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from argstream import testing
from argstream.testing import CallTool, Cut, ErrorEvent, Fault, MockProvider, Reply, Say, Think

Placed: TypeAlias = list[tuple[str, dict[str, Any]]]  # objects, each with its path in the body

_PROTOCOLS: Final = {
    "/v1/messages": "anthropic",
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
}
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_LONGEST_CHAT_ID: Final = 40
_LONGEST_RESPONSES_ID: Final = 64
_LEAST_BUDGET: Final = 1024
_LEAST_TOP_P: Final = 0.95
_CHAT_ROLES: Final = ("developer", "system", "user", "assistant", "tool", "function")
# An assistant message of Chat Completions without content has one of these.
_INSTEAD_OF_CONTENT: Final = ("tool_calls", "function_call", "refusal", "audio")


def strict_provider(
    script: Reply | Sequence[Reply],
    *,
    faults: Iterable[Fault] = (),
    repeat: bool = False,
    **options: Any,
) -> MockProvider:
    faults = tuple(faults)
    rules = ProviderRules([script] if isinstance(script, Reply) else script, faults)
    return MockProvider(script, faults=faults, repeat=repeat, check=rules, **options)


class ProviderRules:
    """The check of one mock provider. It knows which replies the provider has sent."""

    def __init__(self, replies: Sequence[Reply], faults: Sequence[Fault]) -> None:
        self._replies = replies
        self._faults = faults
        self._answered = 0
        self._memory = Memory()

    def __call__(self, request: testing.ReceivedRequest) -> str | None:
        assert request.body is not None
        protocol = _PROTOCOLS[request.path]
        problems = request_problems(protocol, request.headers, request.body, self._memory)
        if problems:
            return "; ".join(problems)
        reply = self._replies[self._answered % len(self._replies)]
        self._answered += 1
        faults = (*self._faults, *reply.faults)
        if not any(_replaces_reply(fault, request) for fault in faults):
            is_damaged = any(
                isinstance(fault, Cut | ErrorEvent | testing.Malformed) for fault in faults
            )
            self._memory.add(ServedReply(protocol, self._answered, reply), is_damaged=is_damaged)
        return None


def request_problems(
    protocol: str, headers: Mapping[str, str], body: dict[str, Any], memory: "Memory | None" = None
) -> list[str]:
    """Return why a provider would refuse a well-formed request; empty if it would not.

    Without a memory, rules about what the provider has sent before do not apply.
    """
    name = "input" if protocol == "openai-responses" else "messages"
    if not body.get(name) and not body.get("prompt"):
        return [f"{name}: this is required"]
    if protocol == "anthropic":
        return list(_anthropic(headers, body, memory))
    return list((_chat if protocol == "openai-chat" else _responses)(body, memory))


def signature(text: str) -> str:
    return "mock_" + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def reasoning_item(item_id: str, text: str) -> dict[str, Any]:
    """Return thinking as an item of the Responses API, as the mock provider writes it."""
    return {
        "id": item_id,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text}],
        "encrypted_content": signature(text),
    }


def _replaces_reply(fault: Fault, request: testing.ReceivedRequest) -> bool:
    is_error = isinstance(fault, ErrorEvent) and not request.is_streamed
    return isinstance(fault, testing.Status) or is_error


@dataclass(frozen=True)
class ServedReply:
    protocol: str
    number: int  # of the answer; the IDs of its parts contain it
    reply: Reply

    def ids(self, prefix: str) -> list[str]:
        return [
            (isinstance(part, CallTool) and part.call_id) or f"{prefix}mock_{self.number}_{index}"
            for index, part in enumerate(self.reply.parts)
        ]

    @property
    def call_ids(self) -> dict[str, int]:
        ids = self.ids("toolu_" if self.protocol == "anthropic" else "call_")
        parts = enumerate(zip(self.reply.parts, ids, strict=True))
        return {id_: index for index, (part, id_) in parts if isinstance(part, CallTool)}

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.reply.parts if isinstance(part, Say))

    def thinking(self, end: int | None = None) -> list[Think]:
        return [part for part in self.reply.parts[:end] if isinstance(part, Think)]

    def index_of_last(self, call_ids: Collection[str]) -> int:
        """Return the index of the last of these calls, 0 if the reply makes none of them."""
        found = [index for id_, index in self.call_ids.items() if id_ in call_ids]
        return max(found, default=0)


class Memory:
    """The replies of one mock provider. Several conversations may go on at once."""

    def __init__(self) -> None:
        self._by_call: dict[tuple[str, str], list[ServedReply]] = {}
        self._by_text: dict[tuple[str, str], list[ServedReply]] = {}
        self.call_ids: set[str] = set()

    def add(self, served: ServedReply, *, is_damaged: bool) -> None:
        """Remember a reply. Thinking of one that was damaged cannot come back."""
        self.call_ids.update(served.call_ids)
        if is_damaged or not served.thinking():
            return
        for id_ in served.call_ids:
            self._by_call.setdefault((served.protocol, id_), []).append(served)
        if not served.call_ids:
            self._by_text.setdefault((served.protocol, served.text), []).append(served)

    def with_call(self, protocol: str, call_ids: Collection[str]) -> list[ServedReply]:
        return [reply for id_ in call_ids for reply in self._by_call.get((protocol, id_), ())]

    def with_text(self, protocol: str, text: object) -> list[ServedReply]:
        """Return the replies with thinking, and without a call, that have this text."""
        return self._by_text.get((protocol, text), []) if isinstance(text, str) else []


def _anthropic(
    headers: Mapping[str, str], body: dict[str, Any], memory: Memory | None
) -> Iterator[str]:
    tools = _objects(body, "tools")
    for where, tool in tools:
        yield from _name(f"{where}.name", tool.get("name"))
        if tool.get("type") in (None, "custom"):  # others are Anthropic's own and have no schema
            yield from _schema(f"{where}.input_schema", tool.get("input_schema"))
    names = _texts(tool.get("name") for _, tool in tools)
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"tools: names must be unique, and {name!r} is there twice"
    yield from _anthropic_settings(headers, body)
    messages = _objects(body, "messages")
    yield from _anthropic_messages(messages, has_tools=bool(body.get("tools")))
    yield from _anthropic_thinking(messages, body, memory)


def _anthropic_messages(messages: Placed, *, has_tools: bool) -> Iterator[str]:
    asked: list[object] = []  # IDs of the calls of the message before
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
    match messages[-1][1].get("role") if messages else None, blocks:
        case "assistant", [*_, {"type": "text", "text": str(text)}] if text != text.rstrip():
            yield "messages: the final assistant content cannot end in white space"


def _results(where: str, blocks: list[Any], asked: list[object]) -> Iterator[str]:
    answered = _ids(blocks, "tool_result", "tool_use_id")
    yield from _without_result(where, asked, answered)
    for n, id_ in enumerate(answered):
        if id_ in answered[:n]:
            yield f"{where}: each tool_use must have a single result, and {id_!r} has two"
    others = [_dict(block).get("type") != "tool_result" for block in blocks]
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
    return [block.get(field) for block in map(_dict, blocks) if block.get("type") == type_]


def _without_result(where: str, asked: list[object], answered: list[object]) -> Iterator[str]:
    if missing := [str(call_id) for call_id in asked if call_id not in answered]:
        yield f"{where}: tool_use ids without a tool_result right after: {', '.join(missing)}"


def _anthropic_settings(headers: Mapping[str, str], body: dict[str, Any]) -> Iterator[str]:
    tools, choice = _list(body.get("tools")), _dict(body.get("tool_choice"))
    if choice and not tools:
        yield "tool_choice: this may only be set together with tools"
    names = [_dict(tool).get("name") for tool in tools]
    if choice.get("type") == "tool" and tools and choice.get("name") not in names:
        yield f"tool_choice.name: there is no tool {choice.get('name')!r} among the tools"
    thinking = _dict(body.get("thinking"))
    if thinking.get("type") == "enabled":
        budget, most = thinking.get("budget_tokens"), body.get("max_tokens")
        # Interleaved thinking has a budget for several answers.
        is_interleaved = "interleaved-thinking" in headers.get("anthropic-beta", "")
        if not isinstance(budget, int) or budget < _LEAST_BUDGET:
            yield f"thinking.budget_tokens: must be at least {_LEAST_BUDGET}"
        elif isinstance(most, int) and most <= budget and not is_interleaved:
            yield "thinking.budget_tokens: must be less than max_tokens"
    if thinking.get("type") not in ("enabled", "adaptive"):
        return
    if choice.get("type") in ("any", "tool"):
        yield "tool_choice: thinking may not be enabled when a tool must be called"
    if body.get("temperature") not in (None, 1):
        yield "temperature: may only be 1 when thinking is enabled"
    top_p = body.get("top_p")
    if isinstance(top_p, int | float) and top_p < _LEAST_TOP_P:
        yield f"top_p: must be {_LEAST_TOP_P} or more when thinking is enabled"
    if body.get("top_k") is not None:
        yield "top_k: must not be set when thinking is enabled"


def _anthropic_thinking(
    messages: Placed, body: dict[str, Any], memory: Memory | None
) -> Iterator[str]:
    goes_on_from = _start_of_loop(messages)
    if _dict(body.get("thinking")).get("type") == "enabled" and len(messages) > goes_on_from + 1:
        where, message = messages[goes_on_from]
        first = _dict((_list(message.get("content")) or [None])[0])
        if first.get("type") not in ("thinking", "redacted_thinking"):
            yield f"{where}: with thinking, it must begin with a thought, as its tools go on"
    for n, (where, message) in enumerate(messages):
        content = message.get("content")
        if message.get("role") != "assistant" or not isinstance(content, list):
            continue
        blocks = [block for block in content if isinstance(block, dict)]
        if blocks and blocks[-1].get("type") in ("thinking", "redacted_thinking"):
            yield f"{where}: the final block of an assistant's message cannot be a thought"
        found = [(block.get("thinking"), block.get("signature")) for block in blocks]
        for text, signed in found:
            is_ours = memory is not None or str(signed).startswith("mock_")
            if isinstance(text, str) and signed and is_ours and signed != signature(text):
                yield f"{where}: invalid signature: thinking must go back unchanged"
        if memory is not None and n >= goes_on_from:
            ids = _texts(block.get("id") for block in blocks if block.get("type") == "tool_use")
            turns = memory.with_call("anthropic", ids)
            wanted = [_before(turn, ids) for turn in turns]
            if wanted and not any(_holds(found, thoughts) for thoughts in wanted):
                yield f"{where}: a tool_use came without the thinking blocks that were before it"


def _start_of_loop(messages: Placed) -> int:
    """Return the index after the last user message that has no tool result."""
    for n in reversed(range(len(messages))):
        message = messages[n][1]
        blocks = map(_dict, _list(message.get("content")))
        has_result = any(block.get("type") == "tool_result" for block in blocks)
        if message.get("role") == "user" and not has_result:
            return n + 1
    return 0


def _before(turn: ServedReply, call_ids: list[str]) -> list[tuple[str, str]]:
    thoughts = turn.thinking(turn.index_of_last(call_ids))
    return [(thought.text, signature(thought.text)) for thought in thoughts]


def _chat(body: dict[str, Any], memory: Memory | None) -> Iterator[str]:
    for where, tool in _objects(body, "tools"):
        kind = str(tool["type"])
        function = tool[kind]
        yield from _name(f"{where}.{kind}.name", function.get("name"))
        if "parameters" in function:
            yield from _schema(f"{where}.function.parameters", function["parameters"])
        if function.get("strict") is True:
            parameters = function.get("parameters")
            yield from _strict_schema(f"{where}.function.parameters", parameters)
    yield from _chat_settings(body)
    messages = _objects(body, "messages")
    yield from _chat_messages(messages)
    if memory is not None:
        yield from _chat_thinking(messages, memory)


def _chat_messages(messages: Placed) -> Iterator[str]:
    asked: list[str] = []  # IDs of calls without a result so far
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
        has_content = message.get("content") is not None or any(
            map(message.get, _INSTEAD_OF_CONTENT)
        )
        if role == "assistant" and not has_content:
            yield f"{where}.content: must not be null, if there are no tool_calls"
        if not isinstance(calls, list | None):
            yield f"{where}.tool_calls: must be a list"
        for m, call in enumerate(_list(calls)):
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


def _chat_settings(body: dict[str, Any]) -> Iterator[str]:
    for name in ("tool_choice", "parallel_tool_calls"):
        if body.get(name) is not None and not body.get("tools"):
            yield f"{name}: this is only allowed when there are tools"
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        yield "max_tokens: this cannot be set together with max_completion_tokens"


def _chat_thinking(messages: Placed, memory: Memory) -> Iterator[str]:
    users = [n for n, (_, message) in enumerate(messages) if message.get("role") == "user"]
    returned: set[str] = set()  # IDs of calls whose thinking has come back
    changed: list[tuple[str, list[str]]] = []
    for n, (where, message) in enumerate(messages):
        if message.get("role") != "assistant":
            continue
        ids = _chat_ids(message)
        turns = memory.with_call("openai-chat", ids)
        turns = turns or memory.with_text("openai-chat", message.get("content"))
        reasoning = str(message.get("reasoning_content") or "")
        allowed = {text for turn in turns for text in _reasoning(turn, ids)}
        if reasoning in allowed:
            returned.update(ids)
        elif reasoning and allowed:
            changed.append((where, ids))
        elif allowed and ids and n > max(users, default=-1):
            yield f"{where}.reasoning_content: this must be passed back with the call"
    for where, ids in changed:
        if not returned.intersection(ids):  # else another mock with the same IDs sent it
            yield f"{where}.reasoning_content: it must go back unchanged"


def _chat_ids(message: dict[str, Any]) -> list[str]:
    return _texts(_dict(call).get("id") for call in _list(message.get("tool_calls")))


def _reasoning(turn: ServedReply, call_ids: list[str]) -> set[str]:
    """Return what may come back: all of it, or the part that was read before a stop."""
    parts = len(turn.reply.parts)
    ends = range(turn.index_of_last(call_ids), parts + 1) if call_ids else [parts]
    return {"".join(thought.text for thought in turn.thinking(end)) for end in ends}


def _responses(body: dict[str, Any], memory: Memory | None) -> Iterator[str]:
    for where, tool in _objects(body, "tools"):
        if tool["type"] == "function":
            yield from _name(f"{where}.name", tool.get("name"))
            if tool.get("parameters") is not None:
                yield from _schema(f"{where}.parameters", tool["parameters"])
            if tool.get("strict") is True:
                yield from _strict_schema(f"{where}.parameters", tool.get("parameters"))
    items = _objects(body, "input")
    yield from _responses_items(items, body, memory)
    yield from _responses_thinking(items, body, memory)


def _responses_items(items: Placed, body: dict[str, Any], memory: Memory | None) -> Iterator[str]:
    continues = body.get("previous_response_id") or body.get("conversation")
    # The calls of an earlier response are not in the input.
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
        if len(str(item.get("call_id"))) > _LONGEST_RESPONSES_ID:
            yield f"{where}.call_id: must not be longer than {_LONGEST_RESPONSES_ID} characters"


def _responses_thinking(
    items: Placed, body: dict[str, Any], memory: Memory | None
) -> Iterator[str]:
    is_stateless = body.get("store") is False and not body.get("previous_response_id")
    found = [_reasoning_of(item) for _, item in items if item.get("type") == "reasoning"]
    for n, (where, item) in enumerate(items):
        if item.get("type") == "reasoning":
            following = items[n + 1][1] if n + 1 < len(items) else {}
            yield from _reasoning_problems(where, item, following, memory, store=not is_stateless)
    if memory is None:
        return
    users = [n for n, (_, item) in enumerate(items) if item.get("role") == "user"]
    for n, (where, item) in enumerate(items):
        ids = _texts([item.get("call_id")]) if item.get("type") == "function_call" else []
        turns = memory.with_call("openai-responses", ids)
        wanted = [_served_before(turn, ids) for turn in turns]
        if not wanted or any(_holds(found, thoughts) for thoughts in wanted):
            continue
        sealed = [thought["encrypted_content"] for thoughts in wanted for thought in thoughts]
        if is_stateless and n > max(users, default=-1):
            yield f"{where}: a function call came without its required reasoning item, unchanged"
        elif any(thought["encrypted_content"] in sealed for thought in found):
            yield f"{where}: the reasoning item before it must go back unchanged"


def _reasoning_problems(
    where: str,
    item: dict[str, Any],
    following: dict[str, Any],
    memory: Memory | None,
    *,
    store: bool,
) -> Iterator[str]:
    if item.get("status", "") is None:
        yield f"{where}.status: must be a text, or left out, and not null"
    encrypted = item.get("encrypted_content")
    is_ours = memory is not None or str(encrypted).startswith("mock_")
    if encrypted is None and not store:
        yield f"{where}: this item was not found, and nothing is persisted when store is false"
    elif encrypted is not None and is_ours and encrypted != signature(_summary(item)):
        yield f"{where}: the encrypted content could not be verified: send the item unchanged"
    is_output = str(following.get("type")).endswith("_call_output")
    if not following or following.get("role") == "user" or is_output:
        yield f"{where}: a reasoning item was provided without its required following item"


def _served_before(turn: ServedReply, call_ids: list[str]) -> list[dict[str, Any]]:
    end = turn.index_of_last(call_ids)
    parts = zip(turn.ids("rs_"), turn.reply.parts[:end], strict=False)
    return [
        _reasoning_of(reasoning_item(id_, part.text))
        for id_, part in parts
        if isinstance(part, Think)
    ]


def _reasoning_of(item: dict[str, Any]) -> dict[str, Any]:
    return {name: item.get(name) for name in ("id", "summary", "encrypted_content")}


def _summary(item: dict[str, Any]) -> str:
    parts = _list(item.get("summary"))
    return "".join(str(part.get("text")) for part in parts if isinstance(part, dict))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(body: dict[str, Any], name: str) -> Placed:
    items = enumerate(_list(body.get(name)))
    return [(f"{name}.{n}", item) for n, item in items if isinstance(item, dict)]


def _name(where: str, name: object) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"{where}: a name is required, of up to 64 letters, digits, _ and -"


def _schema(where: str, schema: object) -> Iterator[str]:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield f'{where}: a JSON schema with "type": "object" is required'


def _strict_schema(where: str, schema: object, *, is_root: bool = True) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield f"{where}: a strict schema is an object"
        return
    if "$ref" in schema:
        if len(schema) > 1:
            yield f"{where}: in a strict schema, $ref cannot have other keywords beside it"
        return
    types = schema.get("type")
    types = types if isinstance(types, list) else [types]
    if "type" not in schema and "anyOf" not in schema:
        yield f"{where}: a strict schema must have a type"
    if is_root and ("anyOf" in schema or schema.get("type") != "object"):
        yield f'{where}: a strict schema must have "type": "object", and no anyOf'
    properties = _dict(schema.get("properties"))
    if properties or "object" in types:
        if schema.get("additionalProperties") is not False:
            yield f"{where}: in a strict schema, additionalProperties must be false"
        required = _list(schema.get("required"))
        if missing := [name for name in properties if name not in required]:
            yield f"{where}: in a strict schema, all are required: {', '.join(missing)}"
    if "array" in types and "items" not in schema:
        yield f"{where}: in a strict schema, an array must have items"
    for place, below in _below(schema):
        yield from _strict_schema(f"{where}.{place}", below, is_root=False)


def _below(schema: dict[str, Any]) -> Iterator[tuple[str, object]]:
    for name in ("properties", "$defs"):
        for key, value in _dict(schema.get(name)).items():
            yield f"{name}.{key}", value
    for n, value in enumerate(_list(schema.get("anyOf"))):
        yield f"anyOf.{n}", value
    if "items" in schema:
        yield "items", schema["items"]


def _texts(values: Iterable[object]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def _holds(found: list[Any], wanted: list[Any]) -> bool:
    """Return True if ``found`` contains all of ``wanted``, in this order."""
    rest = iter(found)
    return all(one in rest for one in wanted)
