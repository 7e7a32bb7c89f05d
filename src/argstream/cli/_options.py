"""Options and arguments that several commands have."""

from typing import Annotated, Final, Literal, TypeAlias

import typer

from argstream.adapters import ProtocolName

__all__ = [
    "RUN",
    "AsJson",
    "Folder",
    "Instructions",
    "LintScope",
    "LogLevel",
    "MaxTurns",
    "ModelName",
    "PolicyFile",
    "Port",
    "Protocol",
    "RunOrFile",
    "Store",
    "ToolsFile",
]

RUN: Final = "run:"
"""What a run is named by, where a file could be meant."""

LintScope: TypeAlias = Literal["all", "order", "late"]
LogLevel: TypeAlias = Literal["error", "warning", "info", "debug"]

ModelName: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="Such as anthropic:claude-opus-4-7, openai:gpt-5, ollama:qwen3.",
        show_default="ARGSTREAM_MODEL",
    ),
]
Protocol: TypeAlias = Annotated[
    ProtocolName, typer.Option("--from", help="Which protocol it is; auto finds out.")
]
ToolsFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Judge calls by these tools: JSON, in any provider's format.", metavar="FILE"
    ),
]
PolicyFile: TypeAlias = Annotated[
    str | None, typer.Option(help="Judge calls by this policy: TOML.", metavar="FILE")
]
Store: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="STORE",
        help="The store: an SQLite file, or a redis:// address.",
        show_default="ARGSTREAM_STORE, else argstream.db",
    ),
]
RunOrFile: TypeAlias = Annotated[
    str, typer.Argument(help="A recording, - for standard input, or run:ID for a run of a store.")
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the events as JSON, one a line.")
]

Folder: TypeAlias = Annotated[
    str, typer.Option(metavar="FOLDER", help="Where it works: nothing outside is touched.")
]
Instructions: TypeAlias = Annotated[
    str, typer.Option(metavar="TEXT", help="What the model is told before everything else.")
]
MaxTurns: TypeAlias = Annotated[int, typer.Option(min=1, help="How often the model is asked.")]

Port: TypeAlias = Annotated[
    int, typer.Option(min=0, max=65535, help="Where to listen; 0 is any free port.")
]
