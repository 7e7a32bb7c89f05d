"""How people use typed(), for type checkers: each line must be as precise as it says.

mypy and pyright check this file (``tests.test_types``). It is never run.
"""

from typing import Any, assert_type

from pydantic import BaseModel
from typing_extensions import TypedDict

from argstream.assembly import Call
from argstream.validation import ToolSpec, TypedArguments, tool_specs, typed


class Edit(BaseModel):
    line: int


class WriteFile(BaseModel):
    path: str
    edits: list[Edit]
    edit: Edit | None = None


class Line(TypedDict):
    length: float


def write(path: str) -> int:
    return len(path)


def models(call: Call) -> None:
    view = typed(WriteFile, call)
    assert_type(view, TypedArguments[WriteFile])
    assert_type(view.so_far, WriteFile)
    assert_type(view.so_far.path, str)
    assert_type(view.so_far.edits[0].line, int)
    for edit in view.so_far.edits:
        assert_type(edit, Edit)
    assert_type(view.so_far.edit, Edit | None)
    assert_type(view.value(), WriteFile)
    assert_type(view.settled, frozenset[str])
    assert_type(view.errors, dict[str, str])
    assert_type(view.get("path"), Any)
    assert_type("path" in view, bool)
    assert_type(typed(Line, call).so_far["length"], float)


def others(call: Call) -> None:
    assert_type(typed(write, call), TypedArguments[Any])
    assert_type(typed(write, call).so_far.path, Any)
    assert_type(typed(ToolSpec.of(write), call), TypedArguments[Any])
    assert_type(tool_specs([WriteFile, write, {"name": "x"}]), list[ToolSpec])
