"""Lazy exports: a package loads a module when one of the module's names is first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeAlias

Hooks: TypeAlias = tuple[Callable[[str], object], Callable[[], list[str]]]


def lazy_exports(package: str, exports: Mapping[str, str]) -> Hooks:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    ``exports`` maps each module to its names, in one string. A module whose name starts with a dot
    is beside the package. Assign the result under ``if not TYPE_CHECKING``: a type checker that
    sees a ``__getattr__`` of a module accepts misspelt names.
    """
    modules = {name: module for module, names in exports.items() for name in names.split()}

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *modules})
