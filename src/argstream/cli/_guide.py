"""What the model of ``argstream serve`` says while no other is named, whatever is said to it.

It follows a script, and says so. Where it is in that is told by the messages alone: so any number
of conversations go on at once, in any process, and after it was started anew. Each answer counts
with two tools at once, writes a file of some forty lines with one that asks, and ends with what
became of that.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final, NamedTuple
from uuid import uuid4

from pydantic import Field

from argstream.agent import Tool, ToolContext, tool
from argstream.agent.toolkits import file_tools
from argstream.history import CallPart, Message, ResultPart, TextPart
from argstream.models import CallTool, ModelRequest, Reply, Say, ScriptedModel, Think
from argstream.providers import ProtocolName

_PIECE: Final = 9  # characters; with 0.03 s between two pieces, 300 a second, as a usual model
_BELOW: Final = 10_000
_QUOTED: Final = 60
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


class _Scene(NamedTuple):
    """What is written in the answer to one message of a conversation."""

    path: str
    plan: str


_SCENES: Final = (
    _Scene(
        "primes.py",
        "Now I write a small program. You can read it while I write; then I have to wait for you: "
        "approve it, change it, or say no.",
    ),
    _Scene(
        "picnic.md",
        "Now I write a list in Markdown. If you said yes before, try no, and give a reason: a "
        "model would be told that.",
    ),
)
_FIRST: Final = (
    "Hello! I am no model but a script, so I need no key and understand nothing. What you see is "
    "real all the same: the tools run, and the file is written if you say so. You wrote “{prompt}”."
)
_FURTHER: Final = (
    "Still a script, and this is message {number} of our conversation. All of it is in the log of "
    "the server, which you could have started anew in between. You wrote “{prompt}”."
)


def reply_to(messages: Sequence[Message]) -> Reply:
    """Return what comes next in a conversation whose last message is the user's."""
    number = max(sum(bool(_text_of(message)) for message in messages), 1)
    scene = _SCENES[(number - 1) % len(_SCENES)]
    if prompt := _text_of(messages[-1]):
        return _opening(number, prompt)
    results = _results(messages)
    if "write_file" in results:
        return Reply(_ending(scene, results["write_file"]))
    return _writing(scene, results)


def _opening(number: int, prompt: str) -> Reply:
    words = _FIRST if number == 1 else _FURTHER
    counted = "its words" if len(prompt) <= _COUNTED else "the words at its beginning"
    return Reply(
        Think("Whatever the message says, the script does the same: it counts, then it writes."),
        Say(
            f"{words.format(prompt=_quoted(prompt), number=number)} I count {counted} and some "
            "prime numbers, at the same time:"
        ),
        _call("count_words", {"text": prompt[:_COUNTED]}),
        _call("count_primes", {"below": _BELOW}),
    )


def _quoted(prompt: str) -> str:
    line = " ".join(prompt.split())
    return line if len(line) <= _QUOTED else f"{line[:_QUOTED]}…"


def _writing(scene: _Scene, results: Mapping[str, ResultPart]) -> Reply:
    found = " ".join(_told(result) for result in results.values())
    text = files(__package__).joinpath("texts", f"{scene.path}.txt").read_text(encoding="utf-8")
    return Reply(
        Say(f"{found} {scene.plan}"),
        _call("write_file", {"path": scene.path, "content": text}),
    )


def _told(result: ResultPart) -> str:
    return f"A tool failed: {result.result}." if result.failed else f"{result.result}."


def _ending(scene: _Scene, written: ResultPart) -> str:
    told = str(written.result)
    _, denied, reason = told.partition(_DENIED)
    if written.failed and denied:
        start = f"You said no, so {scene.path} is not written{_because(reason.removeprefix(': '))}."
    elif written.failed:
        start = f"That did not work: {told}."
    elif written.note:
        start = f"You changed it before you said yes, and your words count: {told}."
    else:
        start = f"Thank you: {told}."
    return f"{start} That was all of the script. Write something else, and it goes on."


def _because(reason: str) -> str:
    return f". A model would read your reason: “{reason}”" if reason else ", and I need no reason"


def _call(name: str, arguments: Mapping[str, object]) -> CallTool:
    """Call a tool with an ID that no other call of the conversation has."""
    return CallTool(name, arguments, call_id=f"toolu_{uuid4().hex}")


def _text_of(message: Message) -> str:
    """Return the user's text in a message; "" if it is the model's, or has results alone."""
    if message.role != "user":
        return ""
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))


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


def script_tools(folder: Path, pause: float) -> list[Tool]:
    """Return two tools that run at once, and one that needs approval. Files go into this folder.

    ``pause`` is how many seconds each step of the longer one takes.
    """

    @tool
    def count_words(text: str) -> str:
        """Count the words and the characters of a text.

        :param text: Any text.
        """
        return f"{_counted(text.split(), 'word')} and {_counted(text, 'character')}"

    @tool
    async def count_primes(
        below: Annotated[int, Field(ge=2, le=1_000_000)], context: ToolContext
    ) -> str:
        """Count the prime numbers below a number, and tell how far it has come.

        :param below: The first number that is too large.
        """
        is_prime = _sieve(below)
        for step in range(1, _STEPS + 1):
            end = below * step // _STEPS
            context.output(f"below {end:,}: {sum(is_prime[:end]):,}\n")
            await asyncio.sleep(pause)  # so that a viewer sees that it takes time
        return f"{sum(is_prime):,} primes are below {below:,}"

    @tool(requires_confirmation=True)
    def write_file(path: str, content: str, context: ToolContext) -> str:
        """Write a text file; a person must approve it first.

        :param path: Where, such as notes/today.md.
        :param content: The whole text.
        """
        place = folder / context.run_id  # runs do not see the files of other runs
        place.mkdir(exist_ok=True)
        _forget_oldest(folder)
        write = next(one for one in file_tools(place) if one.name == "write_file")
        return f"{write.function(path, content)}, in a temporary folder of the server"

    return [count_words, count_primes, write_file]


def _counted(things: list[str] | str, name: str) -> str:
    return f"{len(things):,} {name}{'' if len(things) == 1 else 's'}"


def _sieve(below: int) -> bytearray:
    is_prime = bytearray([1]) * below
    is_prime[:2] = bytes(2)
    for number in range(2, int(below**0.5) + 1):
        if is_prime[number]:
            multiples = range(number * number, below, number)
            is_prime[number * number :: number] = bytes(len(multiples))
    return is_prime


def _forget_oldest(folder: Path) -> None:
    places = sorted(folder.iterdir(), key=lambda place: place.stat().st_mtime_ns)
    for place in places[:-_MOST_RUNS]:
        shutil.rmtree(place, ignore_errors=True)  # another call may be about it as well
