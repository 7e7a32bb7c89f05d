r"""The tools that a model was offered, in whatever form you hold them.

>>> anthropic = {"name": "read", "input_schema": {"type": "object", "required": ["path"]}}
>>> openai = {"type": "function", "function": {"name": "write"}}
>>> gemini = {"functionDeclarations": [{"name": "find"}, {"name": "move"}]}
>>> [tool.name for tool in tool_specs([anthropic, openai, gemini])]
['read', 'write', 'find', 'move']

Tools that the provider runs itself are left out, or known by name alone. A tool without parameters
takes any object: a schema is never stricter than what the provider was told.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from argstream.errors import UsageError
from argstream.validation.schema import Schema
from argstream.validation.tools._formats import FORMS, FoundTool, found, is_sent, listed, tools_in
from argstream.validation.tools._keywords import refuse_what_says_nothing

__all__ = ["ToolSpec", "load_tools", "tool_specs"]

_KINDS: Final = ("function", "custom")


class ToolSpec(Struct, frozen=True):
    """A tool that a model may call."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] | bool | Schema | None = None
    """The JSON Schema of its arguments; None: nothing is known of them (free text, built-in).

    One that is compiled already (``Schema``) may have its own limits, formats and resources.
    """
    kind: Literal["function", "custom"] = "function"
    """``custom`` takes free text."""
    source: Any = None
    """The class or the function that it was made of, if it was."""

    def __post_init__(self) -> None:
        """Raise UsageError for what has a wrong form: a schema in a wrong place is no schema."""
        name: object = self.name
        if name == "" or not isinstance(name, str):
            raise UsageError(
                f"a tool needs a name, not {found(self.name)}; of a class or a function, "
                "ToolSpec.of makes one"
            )
        where = f"the tool {self.name!r}"
        if not isinstance(self.description, str):
            raise UsageError(
                f"{where}: its description must be a str, not {found(self.description)}; the schema"
                f" is the third: ToolSpec({self.name!r}, description, schema)"
            )
        if isinstance(self.schema, Mapping):
            refuse_what_says_nothing(self.schema, where)
        elif not isinstance(self.schema, bool | Schema | None):
            raise UsageError(
                f"{where}: its schema must be a JSON Schema, not {found(self.schema)}; of a class "
                "or a function, ToolSpec.of makes one"
            )
        if self.kind not in _KINDS:
            raise UsageError(
                f"{where}: its kind must be 'function' or 'custom', not {found(self.kind)}"
            )

    @classmethod
    def of(
        cls, tool: object, *, name: str | None = None, description: str | None = None
    ) -> "ToolSpec":
        """Read one tool: a pydantic model class, a function, or what a provider's request has."""
        specs = _read([("the tool", tool)])
        if len(specs) != 1:
            told = f"holds {len(specs)} tools" if specs else "is run by the provider itself"
            raise UsageError(f"{found(tool)} {told}: use tool_specs for a list")
        (spec,) = specs
        return cls(
            spec.name if name is None else name,
            spec.description if description is None else description,
            spec.schema,
            spec.kind,
            spec.source,
        )


def tool_specs(tools: Iterable[object]) -> list[ToolSpec]:
    """Read tools, of any mix of formats; of one request with its tools, these.

    Tools of the Claude Agent SDK have the names that they were given; its calls say
    ``mcp__server__name``, so use ``ToolSpec.of(tool, name=…)`` to judge them. Raises UsageError for
    what cannot be read, and for two tools of one name.
    """
    return _read((f"tools[{number}]", tool) for number, tool in enumerate(_entries(tools)))


def load_tools(path: str | Path) -> list[ToolSpec]:
    """Read the tools of a JSON file: a list of tools, a whole request with its tools, or one tool.

    Raises UsageError, which names the file and what to do, if there is none to be read.
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # JSON, or UTF-8
        raise UsageError(
            f"{path} is no JSON: {error}; give a list of tools, or a request with its tools"
        ) from error
    except RecursionError as error:
        raise UsageError(f"{path} is nested too deeply to be read") from error
    if not isinstance(content, list | dict):
        raise UsageError(f"{path} has no tools in it: give a list of tools, not {found(content)}")
    try:
        return tool_specs(content)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _entries(tools: object) -> list[object]:
    if isinstance(tools, Mapping) or (is_sent(tools) and not isinstance(tools, list | tuple)):
        inner = listed(tools)
        return [tools] if inner is None else inner
    if isinstance(tools, ToolSpec | str | bytes) or not isinstance(tools, Iterable):
        raise UsageError(f"tools must be a list, not {found(tools)}; a tool is {FORMS}")
    return list(tools)


def _read(entries: Iterable[tuple[str, object]]) -> list[ToolSpec]:
    try:
        return _read_all(entries)
    except RecursionError as error:
        raise UsageError("the tools are nested too deeply to be read") from error


def _read_all(entries: Iterable[tuple[str, object]]) -> list[ToolSpec]:
    specs: dict[str, ToolSpec] = {}
    shared: set[str] = set()
    for where, tool in entries:
        own = tool if isinstance(tool, ToolSpec) else getattr(tool, "spec", None)
        if isinstance(own, ToolSpec):  # a tool of an agent has one
            _add(own, where, specs)
            continue
        for one in tools_in(tool, where):
            spec = _spec(one)
            known = specs.get(one.name)
            is_same = known is not None and (known.schema, known.kind) == (spec.schema, spec.kind)
            if is_same and (one.is_shared or one.name in shared):
                pass  # which of them a call means does not matter
            elif known is not None and one.is_shared and one.name in shared:
                specs[one.name] = ToolSpec(one.name, kind=known.kind)
            else:
                _add(spec, where, specs)
            if not one.is_shared:
                shared.discard(one.name)
            elif known is None:
                shared.add(one.name)
    return list(specs.values())


def _spec(tool: FoundTool) -> ToolSpec:
    return ToolSpec(tool.name, tool.description, tool.schema, tool.kind, tool.source)


def _add(spec: ToolSpec, where: str, specs: dict[str, ToolSpec]) -> None:
    if spec.name in specs:
        raise UsageError(
            f"{where}: there are two tools of the name {spec.name!r}; a call could mean either"
        )
    specs[spec.name] = spec
