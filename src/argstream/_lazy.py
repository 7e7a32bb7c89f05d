"""Lazy exports: a package loads a module when one of the module's names is first used."""

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module


def lazy_exports(package: str, exports: Mapping[str, Collection[str]]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package. ``exports`` maps each module to its names.

    Assign the result under ``if not TYPE_CHECKING``: a type checker that sees a ``__getattr__`` of
    a module accepts misspelt names.
    """
    modules = {name: module for module, names in exports.items() for name in names}

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
