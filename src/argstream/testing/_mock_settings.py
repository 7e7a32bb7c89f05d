"""Settings that a provider refuses: each is right in itself, but not together with the others."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["anthropic_settings", "chat_settings", "strict_problems"]

_LEAST_BUDGET: Final = 1024
_LEAST_TOP_P: Final = 0.95


def anthropic_settings(headers: Mapping[str, str], body: dict[str, Any]) -> Iterator[str]:
    """Check thinking, and whether tools must be called."""
    tools = body.get("tools")
    tools = tools if isinstance(tools, list) else []
    choice = body.get("tool_choice")
    choice = choice if isinstance(choice, dict) else {}
    if choice and not tools:
        yield "tool_choice: this may only be set together with tools"
    names = [tool.get("name") for tool in tools if isinstance(tool, dict)]
    if choice.get("type") == "tool" and tools and choice.get("name") not in names:
        yield f"tool_choice.name: there is no tool {choice.get('name')!r} among the tools"
    thinking = body.get("thinking")
    thinking = thinking if isinstance(thinking, dict) else {}
    if thinking.get("type") == "enabled":
        # What is thought between calls counts, too, and belongs to several answers.
        is_interleaved = "interleaved-thinking" in headers.get("anthropic-beta", "")
        most = None if is_interleaved else body.get("max_tokens")
        yield from _budget(thinking.get("budget_tokens"), most)
    if thinking.get("type") in ("enabled", "adaptive"):
        yield from _while_thinking(body, choice)


def _budget(budget: object, most: object) -> Iterator[str]:
    where = "thinking.budget_tokens"
    if not isinstance(budget, int) or budget < _LEAST_BUDGET:
        yield f"{where}: must be at least {_LEAST_BUDGET}"
    elif isinstance(most, int) and most <= budget:
        yield f"{where}: must be less than max_tokens"


def _while_thinking(body: dict[str, Any], choice: dict[str, Any]) -> Iterator[str]:
    if choice.get("type") in ("any", "tool"):
        yield "tool_choice: thinking may not be enabled when a tool must be called"
    if body.get("temperature") not in (None, 1):
        yield "temperature: may only be 1 when thinking is enabled"
    top_p = body.get("top_p")
    if isinstance(top_p, int | float) and top_p < _LEAST_TOP_P:
        yield f"top_p: must be {_LEAST_TOP_P} or more when thinking is enabled"
    if body.get("top_k") is not None:
        yield "top_k: must not be set when thinking is enabled"


def chat_settings(body: dict[str, Any]) -> Iterator[str]:
    """Check what is about tools, and the limit that has two names."""
    for name in ("tool_choice", "parallel_tool_calls"):
        if body.get(name) is not None and not body.get("tools"):
            yield f"{name}: this is only allowed when there are tools"
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        yield "max_tokens: this cannot be set together with max_completion_tokens"


def strict_problems(where: str, schema: object, *, is_root: bool = True) -> Iterator[str]:
    """Check a schema that says of itself that it is strict, as OpenAI does."""
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
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    if properties or "object" in types:
        if schema.get("additionalProperties") is not False:
            yield f"{where}: in a strict schema, additionalProperties must be false"
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        if missing := [name for name in properties if name not in required]:
            yield f"{where}: in a strict schema, all are required: {', '.join(missing)}"
    if "array" in types and "items" not in schema:
        yield f"{where}: in a strict schema, an array must have items"
    for place, below in _below(schema):
        yield from strict_problems(f"{where}.{place}", below, is_root=False)


def _below(schema: dict[str, Any]) -> Iterator[tuple[str, object]]:
    for name in ("properties", "$defs"):
        found = schema.get(name)
        for key, value in found.items() if isinstance(found, dict) else ():
            yield f"{name}.{key}", value
    variants = schema.get("anyOf")
    for n, value in enumerate(variants if isinstance(variants, list) else ()):
        yield f"anyOf.{n}", value
    if "items" in schema:
        yield "items", schema["items"]
