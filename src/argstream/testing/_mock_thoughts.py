"""Whether thinking comes back as it was: the checks that the second turn of an agent fails.

A provider signs or encrypts what its model thought. It refuses a thought that differs by a byte,
and a call without the thought that led to it while the results of that call are being told. The
mock's signature is a seal of the text, so that it also knows the thoughts of another mock.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from argstream.testing._mock_memory import Memory, ServedTurn
from argstream.testing._mock_wire import seal
from argstream.testing.script import Think

__all__ = ["anthropic_thoughts", "chat_thoughts", "reasoning_item", "responses_thoughts"]

_Placed: TypeAlias = list[tuple[str, dict[str, Any]]]


def anthropic_thoughts(
    messages: _Placed, body: dict[str, Any], memory: Memory | None
) -> Iterator[str]:
    """Check the thinking blocks of a request to the Messages API."""
    goes_on_from = _start_of_loop(messages)
    match body.get("thinking"):
        case {"type": "enabled"} if len(messages) > goes_on_from + 1:
            where, message = messages[goes_on_from]
            if not _begins_with_thought(message.get("content")):
                yield f"{where}: with thinking, it must begin with a thought, as its tools go on"
        case _:
            pass
    for n, (where, message) in enumerate(messages):
        content = message.get("content")
        if message.get("role") != "assistant" or not isinstance(content, list):
            continue
        blocks = [block for block in content if isinstance(block, dict)]
        if blocks and blocks[-1].get("type") in ("thinking", "redacted_thinking"):
            yield f"{where}: the final block of an assistant's message cannot be a thought"
        found = [(block.get("thinking"), block.get("signature")) for block in blocks]
        for text, signature in found:
            is_ours = memory is not None or str(signature).startswith("mock_")
            if isinstance(text, str) and signature and is_ours and signature != seal(text):
                yield f"{where}: invalid signature: thinking must go back unchanged"
        if memory is not None and n >= goes_on_from:
            ids = _texts(block.get("id") for block in blocks if block.get("type") == "tool_use")
            turns = memory.calling("anthropic", ids)
            wanted = [_before(turn, ids) for turn in turns]
            if wanted and not any(_holds(found, thoughts) for thoughts in wanted):
                yield f"{where}: a tool_use came without the thinking blocks that were before it"


def _begins_with_thought(content: object) -> bool:
    match content:
        case [{"type": "thinking" | "redacted_thinking"}, *_]:
            return True
        case _:
            return False


def _start_of_loop(messages: _Placed) -> int:
    """Say from which message on a turn goes on: after the user's last one that has no result."""
    for n in reversed(range(len(messages))):
        message = messages[n][1]
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        has_result = any(
            isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks
        )
        if message.get("role") == "user" and not has_result:
            return n + 1
    return 0


def _texts(values: Iterable[object]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def _before(turn: ServedTurn, call_ids: list[str]) -> list[tuple[str, str]]:
    thoughts = turn.thoughts(turn.place_of_last(call_ids))
    return [(thought.text, seal(thought.text)) for thought in thoughts]


def _holds(found: list[Any], wanted: list[Any]) -> bool:
    """Say whether all that is wanted is found, in this order."""
    rest = iter(found)
    return all(one in rest for one in wanted)


def chat_thoughts(messages: _Placed, memory: Memory) -> Iterator[str]:
    """Check ``reasoning_content`` of a request to the Chat Completions API."""
    users = [n for n, (_, message) in enumerate(messages) if message.get("role") == "user"]
    returned: set[str] = set()  # calls whose thoughts have come back
    changed: list[tuple[str, list[str]]] = []
    for n, (where, message) in enumerate(messages):
        if message.get("role") != "assistant":
            continue
        ids = _chat_ids(message)
        turns = memory.calling("openai-chat", ids)
        turns = turns or memory.saying("openai-chat", message.get("content"))
        said = str(message.get("reasoning_content") or "")
        allowed = {text for turn in turns for text in _reasoning(turn, ids)}
        if said in allowed:
            returned.update(ids)
        elif said and allowed:
            changed.append((where, ids))
        elif allowed and ids and n > max(users, default=-1):
            yield f"{where}.reasoning_content: this must be passed back with the call"
    for where, ids in changed:
        if not returned.intersection(ids):  # else it is of another mock, whose ids are the same
            yield f"{where}.reasoning_content: it must go back unchanged"


def _chat_ids(message: dict[str, Any]) -> list[str]:
    calls = message.get("tool_calls")
    found = calls if isinstance(calls, list) else []
    return _texts(call.get("id") for call in found if isinstance(call, dict))


def _reasoning(turn: ServedTurn, call_ids: list[str]) -> set[str]:
    """Give what may come back: all of it, or as much as came before one stopped to read."""
    parts = len(turn.turn.reply.parts)
    ends = range(turn.place_of_last(call_ids), parts + 1) if call_ids else [parts]
    return {"".join(thought.text for thought in turn.thoughts(end)) for end in ends}


def responses_thoughts(
    items: _Placed, body: dict[str, Any], memory: Memory | None
) -> Iterator[str]:
    """Check the reasoning items of a request to the Responses API."""
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
        turns = memory.calling("openai-responses", ids)
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
    elif encrypted is not None and is_ours and encrypted != seal(_summary(item)):
        yield f"{where}: the encrypted content could not be verified: send the item unchanged"
    if not following or following.get("role") == "user" or _is_output(following):
        yield f"{where}: a reasoning item was provided without its required following item"


def _served_before(turn: ServedTurn, call_ids: list[str]) -> list[dict[str, Any]]:
    end = turn.place_of_last(call_ids)
    parts = zip(turn.turn.ids("rs_"), turn.turn.reply.parts[:end], strict=False)
    return [
        _reasoning_of(reasoning_item(id_, part.text))
        for id_, part in parts
        if isinstance(part, Think)
    ]


def reasoning_item(item_id: str, text: str) -> dict[str, Any]:
    """Give a thought as an item of the Responses API."""
    return {
        "id": item_id,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text}],
        "encrypted_content": seal(text),
    }


def _reasoning_of(item: dict[str, Any]) -> dict[str, Any]:
    return {name: item.get(name) for name in ("id", "summary", "encrypted_content")}


def _summary(item: dict[str, Any]) -> str:
    summary = item.get("summary")
    parts = summary if isinstance(summary, list) else []
    return "".join(str(part.get("text")) for part in parts if isinstance(part, dict))


def _is_output(item: dict[str, Any]) -> bool:
    return str(item.get("type")).endswith("_call_output")
