"""A conversation as the messages of a chat, for a page that is loaded anew.

A run is two messages: what the user said, and what the assistant has said and done, which is the
message that the run's stream tells of, under the same id. So a page that has these messages and
then resumes the stream goes on in the right one.

Which runs belong to a conversation its newest run says, whose history has what was said before it:
an earlier run is a part of that, or its place was taken by another, when something was said again.
What was said before the oldest run that is there is told as far as its history has it: runs may
have been deleted long ago.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from argstream.events import (
    ArgumentsError,
    Event,
    RunCompleted,
    RunSnapshot,
    TextDelta,
    ThinkingCompleted,
    ToolArgsCompleted,
    ToolArgsInvalid,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    TurnCompleted,
    TurnStarted,
)
from argstream.history import (
    CallPart,
    Message,
    ResultPart,
    TextPart,
    ThinkingPart,
    said_by_user,
)
from argstream.protocols.ai_sdk._folding import folded
from argstream.protocols.ai_sdk._message import MessageWriter
from argstream.protocols.ai_sdk._parts import Part
from argstream.protocols.calls import text_of
from argstream.snapshot_events import events_of

__all__ = ["ChatHistory"]

_NOTHING_SAID: Final = Message(role="assistant", parts=())


class ChatHistory:
    """Takes the runs of a conversation, the newest first, and gives their messages."""

    def __init__(self) -> None:
        self._told: list[list[Part]] = []  # the messages of each run, the newest first
        self._before: tuple[Message, ...] | None = None  # None while no run has told

    @property
    def is_whole(self) -> bool:
        """Whether nothing was said before the runs that were taken."""
        return self._before == ()

    def add(self, run: RunSnapshot) -> None:
        """Take the next older run; one whose place another has taken is let be."""
        if self._before is not None and not _is_part(run, self._before):
            return
        self._told.append([*_messages_of(run)])
        # A run that is only observed tells of no turns, nor of what was said before it.
        self._before = run.history if run.turns else None

    def messages(self) -> list[Part]:
        """Give all messages, in the order in which they were said."""
        earlier = [*_earlier_messages(self._before or ())]
        return [*earlier, *(message for told in reversed(self._told) for message in told)]


def _is_part(run: RunSnapshot, history: Sequence[Message]) -> bool:
    """Say whether it is this run that is a part of what was said, and where."""
    place = len(run.history)
    return (
        place < len(history)
        and said_by_user(history[place]) == run.prompt
        and tuple(history[:place]) == run.history
    )


# Runs


def _messages_of(run: RunSnapshot) -> Iterator[Part]:
    yield _user_message(f"{run.run_id}-prompt", run.prompt)
    cost = TurnCompleted(run.stop_reason, _NOTHING_SAID, run.usage)
    answer = _answer(run.run_id, [cost, *events_of(run, with_text=False)])
    if answer["parts"]:
        yield answer


def _user_message(message_id: str, text: str) -> Part:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def _answer(message_id: str, events: Iterable[Event]) -> Part:
    writer = MessageWriter(message_id)
    parts = [part for event in events for part in writer.take(event)]
    return folded(message_id, [*parts, *writer.rest()])


# What was said before


def _earlier_messages(history: Sequence[Message]) -> Iterator[Part]:
    """Give the messages of runs that are not there; their ids are their places."""
    answers: list[Message] = []
    for place, message in enumerate(history):
        if said := said_by_user(message):
            yield from _earlier_answer(place, answers)
            yield _user_message(f"message-{place}", said)
            answers = []
        else:
            answers.append(message)
    yield from _earlier_answer(len(history), answers)


def _earlier_answer(end: int, messages: Sequence[Message]) -> Iterator[Part]:
    if messages:
        answer = _answer(f"message-{end - len(messages)}", _events_of_messages(messages))
        del answer["metadata"]  # it is not known which run it was, nor what it cost
        yield answer


def _events_of_messages(messages: Sequence[Message]) -> Iterator[Event]:
    parts = [part for message in messages for part in message.parts]
    results = {part.call_id: part for part in parts if isinstance(part, ResultPart)}
    turns = [message for message in messages if message.role == "assistant"]
    for turn, message in enumerate(turns, 1):
        yield TurnStarted(turn)
        for block, part in enumerate(message.parts):
            match part:
                case TextPart(text=text) if text:
                    yield TextDelta(text, block)
                case ThinkingPart(text=text) if text:
                    yield ThinkingCompleted(text, block)
                case CallPart():
                    yield from _events_of_call(part, results.get(part.call_id))
                case _:
                    pass  # nothing to show, or told with its call
    yield RunCompleted(None)


def _events_of_call(call: CallPart, answer: ResultPart | None) -> Iterator[Event]:
    call_id, name, arguments = call.call_id, call.name, call.arguments
    yield ToolCallStarted(call_id, 0, name, call.kind)
    if call.verdict != "complete":
        why = "" if answer is None else text_of(answer.result)
        error = ArgumentsError(call.verdict, why)
        yield ToolArgsInvalid(call_id, name, call.verdict, call.raw, error)
        return
    yield ToolArgsCompleted(call_id, name, arguments)
    if answer is not None and answer.failed:
        yield ToolCallFailed(call_id, name, answer.result)
    elif answer is not None:
        yield ToolCallCompleted(call_id, name, arguments, answer.result)
