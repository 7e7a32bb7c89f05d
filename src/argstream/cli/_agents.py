"""What the commands that run an agent have in common: its model, its folder and its tools."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from argstream.agent import Tool
from argstream.agent.toolkits import file_tools, shell_tool
from argstream.clients import HttpModel, make_model
from argstream.errors import UsageError

__all__ = ["INSTRUCTIONS", "chosen_model", "folder_named", "kits_named", "model_named", "tools_of"]

INSTRUCTIONS: Final = (
    "You work in the folder {folder}, with the tools that you are given. Paths are relative to it. "
    "Read what you change before you change it. Be brief."
)
_MODEL: Final = "ARGSTREAM_MODEL"
_KITS: Final[dict[str, Callable[[Path, Sequence[Path]], list[Tool]]]] = {
    "files": lambda folder, hidden: file_tools(folder, hidden=hidden),
    "shell": lambda folder, _: [shell_tool(folder)],
}


def chosen_model(given: str) -> str:
    """Give the name of the model that is meant: what was given, or what the environment says."""
    return given or os.environ.get(_MODEL, "")


def model_named(name: str) -> HttpModel:
    """Make the model of this name, which has its key; "" is no name."""
    if not name:
        raise UsageError(
            f"name a model, such as --model anthropic:claude-opus-4-7, or set {_MODEL}; "
            "`argstream demo` needs none"
        )
    model = make_model(name)
    model.require_key()
    return model


def folder_named(name: str) -> Path:
    """Give the folder that everything is about, in one spelling for all."""
    if not name:
        raise UsageError("--folder has no name: leave it out to work in this folder")
    try:
        return Path(name).expanduser().absolute()
    except (OSError, RuntimeError) as error:  # no such home; or this folder is gone
        raise UsageError(f"--folder {name} cannot be used: {error}") from None


def kits_named(names: str) -> list[str]:
    """Give the names of the kits of tools that are meant by ``files,shell``."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := sorted({*wanted} - {*_KITS}):
        raise UsageError(f"--tools are some of {', '.join(_KITS)}, not {', '.join(unknown)}")
    return list(dict.fromkeys(wanted))


def tools_of(kits: list[str], folder: Path, hidden: Sequence[Path]) -> list[Tool]:
    """Make the tools of these kits, for one folder, in which some files are not theirs."""
    return [tool for kit in kits for tool in _KITS[kit](folder, hidden)]
