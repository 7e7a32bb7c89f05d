"""A conversation as the messages of AG-UI: what clients keep, and are shown anew when they ask."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from argstream.events import RunSnapshot, SeenBlock, SeenCall, SeenText, SeenThinking
from argstream.history import CallPart, Message, Part, ResultPart, TextPart, ThinkingPart
from argstream.protocols.ag_ui._blocks import LOST, NO_RESULT, Block, CallBlock
from argstream.protocols.ag_ui._story import Story, lost_messages
from argstream.protocols.ag_ui.wire import AgUiEvent, note
from argstream.protocols.calls import text_of

__all__ = ["besides_messages", "messages_snapshot"]

AgUiMessage: TypeAlias = dict[str, Any]

_known_messages: Final = msgspec.json.Decoder(list[AgUiMessage])


def messages_snapshot(snapshot: RunSnapshot, story: Story, known: bytes | None) -> list[AgUiEvent]:
    """Tell a client all messages that it should have.

    A client drops what is not among these. So what it had before the run is told back to it as it
    told us; one that has told nothing is shown what was said by the log. What is new to it, it puts
    last, but results where they belong: so these follow.
    """
    if known is not None and not story.blocks:
        return []  # it has them
    before = _said_before(snapshot) if known is None else _without_run(known, story.run_id)
    blocks = list(zip(snapshot.blocks, story.blocks, strict=True))
    run = [message for seen, block in blocks for message in _messages_of(seen, block)]
    told: list[AgUiEvent] = [{"type": "MESSAGES_SNAPSHOT", "messages": [*before, *run]}]
    for seen, block in blocks:
        if isinstance(seen, SeenCall) and isinstance(block, CallBlock):
            told += _results(seen, block, is_over=snapshot.end is not None)
    return told


def besides_messages(snapshot: RunSnapshot, story: Story) -> Iterator[AgUiEvent]:
    """Tell what is no message, as it was told when it happened."""
    lost = [block for block in story.blocks if block.is_lost]
    if lost:
        yield lost_messages(lost)
    for seen, block in zip(snapshot.blocks, story.blocks, strict=True):
        if isinstance(seen, SeenCall) and isinstance(block, CallBlock) and not seen.is_lost:
            yield from _besides(seen, block)


def _besides(seen: SeenCall, call: CallBlock) -> Iterator[AgUiEvent]:
    if seen.verdict == "complete" and seen.arguments is not None:
        yield from call.restated(call.text_of_arguments(seen.raw), seen.arguments)
    if seen.error is not None and seen.verdict is not None:
        yield from call.invalid(seen.verdict, seen.error)
    if seen.request is not None:
        yield from call.asked(seen.request)
    if seen.decision is not None:
        yield from call.decided(seen.decision)
    yield from call.said(seen.output)


# The run itself


def _messages_of(seen: SeenBlock, block: Block) -> Iterator[AgUiMessage]:
    match seen:
        case SeenText(text=text):
            yield {"id": block.id, "role": "assistant", "content": text, **block.tag}
        case SeenThinking(text=text):
            if text:
                yield {"id": block.id, "role": "reasoning", "content": text, **block.tag}
        case SeenCall(raw=raw) if isinstance(block, CallBlock):
            text = block.text_of_arguments(raw) if seen.verdict == "complete" else raw
            yield {**_calling(block.id, block.call_id, seen.name, text), **block.tag}


def _results(seen: SeenCall, call: CallBlock, *, is_over: bool) -> Iterator[AgUiEvent]:
    if seen.outcome is not None:
        yield call.answered(seen.result, failed=seen.outcome == "failed")
    elif seen.is_lost:
        yield call.answered(LOST, failed=True)
    elif is_over:
        yield call.answered(NO_RESULT, failed=True)


def _calling(message_id: str, call_id: str, name: str, arguments: str) -> AgUiMessage:
    function = {"name": name, "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return {"id": message_id, "role": "assistant", "toolCalls": [call]}


# What was said before


def _without_run(known: bytes, run_id: str) -> Iterator[AgUiMessage]:
    start = f"{run_id}-"
    messages = _known_messages.decode(known)
    return (message for message in messages if not str(message.get("id")).startswith(start))


def _said_before(snapshot: RunSnapshot) -> Iterator[AgUiMessage]:
    start = f"{snapshot.run_id}-before"
    for number, message in enumerate(snapshot.history, 1):
        for place, part in enumerate(message.parts, 1):
            yield from _of_part(f"{start}-{number}-{place}", message, part)
    yield {"id": f"{snapshot.run_id}-prompt", "role": "user", "content": snapshot.prompt}


def _of_part(message_id: str, message: Message, part: Part) -> Iterator[AgUiMessage]:
    match part:
        case TextPart(text=text):
            yield {"id": message_id, "role": message.role, "content": text}
        case ThinkingPart(text=text):
            if text:
                yield {"id": message_id, "role": "reasoning", "content": text}
        case CallPart(call_id=call_id, name=name, raw=raw):
            yield _calling(message_id, call_id, name, raw or "{}")
        case ResultPart(call_id=call_id, result=result, failed=failed):
            answer = {
                "id": message_id,
                "role": "tool",
                "toolCallId": call_id,
                "content": text_of(result),
            }
            yield {**answer, **note(failed=True)} if failed else answer
        case _:
            pass  # only its provider understands it
