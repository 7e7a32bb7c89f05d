"""The demo model of ``argstream serve`` and ``run --model script``: it follows a script.

The messages of a conversation alone say where it is in the script. So any number of conversations
can go on at once, in any process, also after a restart. The page offers three messages:

- "Write primes.py" runs two tools at once, and writes a file with a tool that needs approval;
- "Fix the tax in prices.py" edits a file;
- "Try something forbidden" writes a file that the policy blocks while it is written.

Any other message is answered like the first.
"""

import asyncio
import shutil
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib.resources import files
from math import isqrt
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import uuid4

from pydantic import Field

from argstream.agent import Tool, ToolContext, tool
from argstream.agent.toolkits import file_tools
from argstream.agent.toolkits._files import Edit
from argstream.history import CallPart, Message, ResultPart, said_by_user
from argstream.models import CallTool, ModelRequest, Reply, Say, ScriptedModel, Think
from argstream.policy import Glob, Policy, Rule
from argstream.providers import ProtocolName
from argstream.terminal._text import count

_PIECE: Final = 9  # characters; with 0.03 s between two pieces, 300 a second, as a usual model
_BELOW: Final = 10_000
_COUNTED: Final = 200  # characters of a message that are counted: a pasted book is not repeated
_DENIED: Final = "it was denied"


class ScriptedGuide:
    """A model that follows the script, with so many seconds before each piece of a text."""

    def __init__(self, pace: float) -> None:
        self.name = "script"
        self.protocol: ProtocolName = "anthropic"
        self._pace = pace

    def stream(self, request: ModelRequest) -> AsyncIterator[object]:
        reply = reply_to(request.messages)
        # One for each request, since it keeps what it was asked.
        return ScriptedModel(reply, piece_size=_PIECE, delay=self._pace).stream(request)


_WRITTEN: Final = "primes.py"
_PLAN: Final = (
    "Next I'll write a small program. You can read it while I type. It needs your approval before "
    "it's saved. You can deny it with a reason; a real model would read it."
)
_FIRST: Final = (
    "This is a scripted demo; no API key needed. The tools are real. I'll run two of them in "
    "parallel:"
)
_FURTHER: Final = (
    "Demo, message {number}. You can restart the server now; the conversation survives. Two tools "
    "in parallel:"
)


_EDIT: Final = "Fix the tax"  # what the messages begin with
_FORBIDDEN: Final = "Try something forbidden"
_SAMPLE: Final = "prices.py"
_BUGS: Final = (
    f"`tax` in `{_SAMPLE}` has three bugs: the rate of books is wrong, the tax is always rounded "
    "down, and an unknown kind fails without an explanation. I'll fix them:"
)
_EDITED: Final = "Edited. The tax is now correct."
_ALLOWED: Final = "Your policy allows that, and you approved it."
_BLOCKED: Final = (
    "The policy blocked the call as soon as its path was complete, before the key was written. "
    "A real model would read the reason and try something else."
)
_EDITS: Final = (
    {
        "old": 'RATES = {"book": 5, "food": 7, "other": 19}\n',
        "new": 'RATES = {"book": 7, "food": 7, "other": 19}  # percent\n',
    },
    {
        "old": "def tax(cents, kind):\n    return cents * RATES[kind] // 100\n",
        "new": (
            "def tax(cents, kind):\n"
            '    """Return the tax on a price. Half a cent is rounded up."""\n'
            "    if kind not in RATES:\n"
            "        raise ValueError(f\"unknown kind {kind!r}. Known: {', '.join(RATES)}\")\n"
            "    return (cents * RATES[kind] + 50) // 100\n"
        ),
    },
    {
        "old": 'def in_euros(cents):\n    return f"{cents / 100:.2f} €"\n',
        "new": (
            "def in_euros(cents):\n"
            '    """Return a price as text, such as 1,234.50 €."""\n'
            '    return f"{cents / 100:,.2f} €"\n'
        ),
    },
)
_KEYS: Final = ".ssh/authorized_keys"
_KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDemoDemoDemoDemoDemoDemoDemoDemoDemo eve\n"


def reply_to(messages: Sequence[Message]) -> Reply:
    """Return what comes next in a conversation whose last message is the user's."""
    prompts = [text for message in messages if (text := said_by_user(message))]
    prompt, results = (prompts or [""])[-1], _results(messages)
    if prompt.startswith(_EDIT):
        edited = results.get("edit_file")
        if edited is None:
            return Reply(Say(_BUGS), _call("edit_file", {"path": _SAMPLE, "edits": _EDITS}))
        outcome = f"That failed: {edited.result}." if edited.failed else _EDITED
        return Reply(f"{outcome} Edits need no approval in this demo. The card shows the diff.")
    written = results.get("write_file")
    if prompt.startswith(_FORBIDDEN):
        if written is None:
            call = _call("write_file", {"path": _KEYS, "content": _KEY * 8})
            return Reply(Say("Next, a call that the policy forbids: adding an SSH key."), call)
        return Reply(_BLOCKED if written.failed else _ALLOWED)
    if written is not None:
        return Reply(_ending(written))
    return _writing(results) if results else _opening(max(len(prompts), 1), prompt)


def _opening(number: int, prompt: str) -> Reply:
    return Reply(
        Think("The demo follows a fixed script: two tool calls, then a file."),
        Say(_FIRST if number == 1 else _FURTHER.format(number=number)),
        _call("count_words", {"text": prompt[:_COUNTED]}),
        _call("count_primes", {"below": _BELOW}),
    )


def _writing(results: Mapping[str, ResultPart]) -> Reply:
    found = " ".join(
        f"A tool failed: {result.result}." if result.failed else f"{result.result}."
        for result in results.values()
    )
    text = files(__package__).joinpath("texts", f"{_WRITTEN}.txt").read_text(encoding="utf-8")
    return Reply(Say(f"{found} {_PLAN}"), _call("write_file", {"path": _WRITTEN, "content": text}))


def _ending(written: ResultPart) -> str:
    told = str(written.result)
    _, denied, reason = told.partition(_DENIED)
    if written.failed and denied:
        why = reason.removeprefix(": ")
        start = f"Denied, so {_WRITTEN} was not written."
        start += f" A real model would read your reason: “{why}”." if why else ""
    elif written.failed:
        start = f"That failed: {told}."
    elif written.note:
        start = f"Saved with your edits: {told}."
    else:
        start = f"Saved: {told}."
    return f"{start} End of the demo script; it starts again with the next message."


def _call(name: str, arguments: Mapping[str, object]) -> CallTool:
    """Call a tool with an ID that no other call of the conversation has."""
    return CallTool(name, arguments, call_id=f"toolu_{uuid4().hex}")


def _results(messages: Sequence[Message]) -> dict[str, ResultPart]:
    """Return the results in the last message, by the names of the tools."""
    names = {
        part.call_id: part.name
        for message in messages
        for part in message.parts
        if isinstance(part, CallPart)
    }
    results = [part for part in messages[-1].parts if isinstance(part, ResultPart)]
    return {names[part.call_id]: part for part in results}


_STEPS: Final = 5
_MOST_RUNS: Final = 100  # whose files are kept: a server that runs for weeks must not fill the disk


def script_policy() -> Policy:
    """Return the policy of the demo: nothing is written where SSH looks for keys."""
    rule = Rule(
        "deny",
        tool=("write_file", "edit_file"),
        argument="path",
        when=Glob("**/.ssh/**"),
        name="no SSH keys",
        reason="SSH keys are off limits",
    )
    return Policy([rule], default="allow")


def script_tools(folder: Path, pause: float) -> list[Tool]:
    """Return the tools of the demo. One needs approval. Files go into this folder.

    ``pause`` is how many seconds each step of the longer one takes.
    """

    @tool
    def count_words(text: str) -> str:
        """Count the words and the characters of a text.

        :param text: Any text.
        """
        return f"{count(len(text.split()), 'word')} and {count(len(text), 'character')}"

    @tool
    async def count_primes(
        below: Annotated[int, Field(ge=2, le=100_000)], context: ToolContext
    ) -> str:
        """Count the prime numbers below a number, and tell how far it has come.

        :param below: The first number that is too large.
        """
        primes = [n for n in range(2, below) if all(n % m for m in range(2, isqrt(n) + 1))]
        for step in range(1, _STEPS + 1):
            end = below * step // _STEPS
            context.output(f"below {end:,}: {bisect_left(primes, end):,}\n")
            await asyncio.sleep(pause)  # so that a viewer sees that it takes time
        return f"{len(primes):,} primes are below {below:,}"

    @tool(requires_confirmation=True)
    def write_file(path: str, content: str, context: ToolContext) -> str:
        """Write a text file; a person must approve it first.

        :param path: Where, such as notes/today.md.
        :param content: The whole text.
        """
        write = _file_tool("write_file", folder, context)
        return f"{write(path, content)}, in a temporary folder"

    @tool
    def edit_file(path: str, edits: list[Edit], context: ToolContext) -> str:
        """Change parts of a text file.

        :param path: The file, such as prices.py.
        :param edits: What is replaced by what. Each old text must occur once.
        """
        edit = _file_tool("edit_file", folder, context)
        return f"{edit(path, edits)}, in a temporary folder"

    return [count_words, count_primes, write_file, edit_file]


def _file_tool(name: str, folder: Path, context: ToolContext) -> Callable[..., Any]:
    """Return a tool that works in the folder of a run: runs do not see the files of other runs."""
    place = folder / context.run_id
    place.mkdir(exist_ok=True)
    if name == "edit_file" and not (place / _SAMPLE).exists():
        sample = files(__package__).joinpath("demo", "project", f"{_SAMPLE}.txt")
        (place / _SAMPLE).write_bytes(sample.read_bytes())
    places = sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime_ns)
    for oldest in places[:-_MOST_RUNS]:
        shutil.rmtree(oldest, ignore_errors=True)  # another call may be about it as well
    return next(one for one in file_tools(place) if one.name == name).function
