"""``argstream watch``: a provider's stream → what the model is doing, while it does it."""

from collections.abc import Callable, Iterable
from pathlib import Path

from argstream.adapters import ProtocolName
from argstream.cli._input import UnreadableFile, chunks, complain
from argstream.cli._rules import NO_RULES, Rules, read_rules
from argstream.cli._shown import Shown
from argstream.errors import MissingExtra, UsageError
from argstream.sanitise import visible_line
from argstream.streaming import stream
from argstream.terminal import Looks, file_reader

__all__ = ["show_stream", "watch_stream"]


def watch_stream(
    file: str,
    protocol: ProtocolName,
    *,
    as_json: bool,
    tools: str | None = None,
    policy: str | None = None,
) -> int:
    """Show a file, or standard input for "-", as it arrives.

    Returns the exit status: 0 if all is well, 1 if a call is not complete or the stream is broken,
    2 if it cannot be read, or the tools or the policy cannot.
    """
    try:
        return show_stream(
            chunks(file, "waiting for a provider's stream on standard input"),
            protocol,
            as_json=as_json,
            rules=read_rules(tools, policy),
            # What is recorded may be about files as they were long ago; what arrives is about now.
            read_file=file_reader(Path.cwd()) if file == "-" else None,
        )
    except (UnreadableFile, UsageError, MissingExtra) as error:
        complain(visible_line(str(error)))
        return 2


def show_stream(
    source: Iterable[bytes],
    protocol: ProtocolName,
    *,
    as_json: bool,
    rules: Rules = NO_RULES,
    read_file: Callable[[str], str | None] | None = None,
) -> int:
    """Show what arrives, for people or as JSON. Returns 0 if all is well, else 1.

    With ``read_file``, edits are shown in the files that they are of.
    """
    looks = Looks(tools=rules.tools or (), read_file=read_file)
    with Shown(looks, as_json=as_json) as shown:
        for event in stream(source, protocol, rules.tools, rules.policy, on_ask="report"):
            shown.show(event)
    return shown.status()
