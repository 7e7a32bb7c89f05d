"""What the model of ``argstream serve`` says while no other is named, whatever is said to it.

It follows a script, and says so. Where it is in that is told by the messages alone: so any number
of conversations go on at once, in any process, and after it was started anew. Each answer counts
with two tools at once, writes a file of some forty lines with one that asks, and ends with what
became of that.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from importlib.resources import files
from typing import Final, NamedTuple
from uuid import uuid4

from argstream.adapters import ProtocolName
from argstream.clients import CallTool, ModelRequest, Reply, Say, ScriptedModel, Think
from argstream.history import CallPart, Message, ResultPart, TextPart

__all__ = ["ScriptedGuide", "reply_to"]

_PIECE: Final = 9
"""Characters at a time: with 0.03 s between two, that is 300 a second, as of a usual model."""
_BELOW: Final = 10_000
_QUOTED: Final = 60
_COUNTED: Final = 200
"""Characters of a message that are counted: who pastes a book need not wait for it."""
_DENIED: Final = "it was denied"


class ScriptedGuide:
    """A model that follows the script, with so many seconds before each piece of a text."""

    def __init__(self, pace: float) -> None:
        self.name = "script"
        self.protocol: ProtocolName = "anthropic"
        self._pace = pace

    def stream(self, request: ModelRequest) -> AsyncIterator[object]:
        """Give what the script says next."""
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
    """Say what comes next in a conversation whose last message is the user's."""
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
    """Call a tool by an id that no other call of the conversation has, whoever made that."""
    return CallTool(name, arguments, call_id=f"toolu_{uuid4().hex}")


def _text_of(message: Message) -> str:
    """Give what a user says in a message; "" if it is the model's, or has results alone."""
    if message.role != "user":
        return ""
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))


def _results(messages: Sequence[Message]) -> dict[str, ResultPart]:
    """Give the results in the last message, by the names of the tools."""
    names = {
        part.call_id: part.name
        for message in messages
        for part in message.parts
        if isinstance(part, CallPart)
    }
    results = [part for part in messages[-1].parts if isinstance(part, ResultPart)]
    return {names[part.call_id]: part for part in results}
