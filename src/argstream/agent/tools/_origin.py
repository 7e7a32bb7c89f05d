"""Where a function is found by another process: its module, and its name in there.

As with ``multiprocessing``, a script that was started as ``__main__`` is run again under another
name, so that what stands below ``if __name__ == "__main__":`` is not.
"""

import importlib
import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from msgspec import Struct

from argstream.agent.tools._signature import is_method
from argstream.errors import UsageError

__all__ = ["Origin", "find_function", "origin_of", "refuse_while_imported", "require_found"]

_AGAIN: Final = "__mp_main__"  # multiprocessing's own name for it, so that a tool may use that
_is_imported: ContextVar[bool] = ContextVar("argstream_is_imported", default=False)


class Origin(Struct, frozen=True):
    """Where a function is defined."""

    module: str
    qualified_name: str
    script: str | None = None
    """The file to be run, if the module is a script and cannot be imported by a name."""


def origin_of(function: Callable[..., Any]) -> Origin:
    """Say where it is found; raise UsageError, with the reason, if no other process could."""
    name = getattr(function, "__qualname__", "")
    if os.name != "posix":
        raise _refused(name, "this system has no process groups, which are needed to end it")
    if not isinstance(function, FunctionType) or is_method(function):
        raise _refused(name, "it is a method, and its object is only here")
    if "<" in name:
        inside = name.partition(".<locals>")[0]
        raise _refused(
            name.rpartition(".")[2], f"it is defined inside {inside}, so it is only here"
        )
    module = function.__module__
    if module != "__main__":
        return Origin(module, name)
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return Origin(spec.name, name)  # python -m
    script = getattr(main, "__file__", None)
    if script is None or not Path(script).is_file():
        raise _refused(name, "it is defined in an interactive session, and so in no file")
    return Origin("__main__", name, str(Path(script).resolve()))


def require_found(function: Callable[..., Any], origin: Origin) -> None:
    """Raise UsageError if what is found there, once its module is loaded, is something else."""
    module = sys.modules.get(function.__module__)
    if module is not None and _at(module, origin.qualified_name) is not function:
        raise _refused(
            origin.qualified_name,
            f"{function.__module__}.{origin.qualified_name} is not this function; let it keep its "
            "name, and put @tool above all other decorators",
        )


def find_function(origin: Origin) -> Callable[..., Any]:
    """Import it, in another process."""
    token = _is_imported.set(True)
    try:
        if origin.script is None:
            module = importlib.import_module(origin.module)
        else:
            module = _run_again(origin.script)
    finally:
        _is_imported.reset(token)
    found: object = _at(module, origin.qualified_name)
    if not callable(found):
        raise UsageError(f"{origin.module} has no {origin.qualified_name} when it is imported")
    return found


def refuse_while_imported() -> None:
    """Raise UsageError where a script is only run again to find one of its tools."""
    if _is_imported.get():
        raise UsageError(
            "this script is run again in a subprocess to find one of its tools, and starts to work:"
            " put what it does below 'if __name__ == \"__main__\":'"
        )


def _run_again(script: str) -> ModuleType:
    main = ModuleType(_AGAIN)
    main.__file__ = script
    sys.modules["__main__"] = sys.modules[_AGAIN] = main
    code = compile(Path(script).read_bytes(), script, "exec")
    exec(code, vars(main))  # noqa: S102 - it is the program's own
    return main


def _at(module: ModuleType, qualified_name: str) -> Any:
    """Give what has this name there: of a tool, its function."""
    found: Any = module
    for step in qualified_name.split("."):
        found = getattr(found, step, None)
    return getattr(found, "function", found)


def _refused(name: str, reason: str) -> UsageError:
    return UsageError(
        f"{name}() cannot be isolated: {reason}. A subprocess imports a function by its module and "
        "name: define it at the top of a module, or leave isolate out"
    )
