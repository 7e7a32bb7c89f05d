"""Nothing that a model, a tool or a person wrote becomes markup, wherever it is (invariant 13).

The same runs are shown twice: once with everything that is meant to break out, once with plain
words of the same shape. Both pages must be made of the same elements. Each scene has a third of the
words, or all of them in `make soak-properties`.
"""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Dialog, expect

from argstream import events as ev
from argstream import sanitise
from argstream.models import CallTool, Reply, Say, Think
from argstream.runs import MemoryStore
from tests.page.census import Census, hidden_characters, open_everything, take_census
from tests.page.conftest import Browsing
from tests.page.payloads import PAYLOADS, harmless
from tests.page.stage import Stage, kept, on_stage
from tests.page.visitor import Visitor
from tests.server.talking import eventually

IS_SOAK = os.environ.get("ARGSTREAM_HYPOTHESIS") == "soak"
Words = Sequence[str]

HOSTILE: Words = PAYLOADS
HARMLESS: Words = [harmless(word, number) for number, word in enumerate(PAYLOADS)]


def arguments_of(word: str) -> dict[str, Any]:
    """Give arguments with a word for a key and for a value: short, long and nested."""
    return {word: word, "text": f"{word}\n" * 3, "nested": {word: [word, {word: [word]}]}}


def called(word: str, number: int) -> Iterator[ev.Event]:
    """Write a call whose name, id and arguments are the word."""
    call_id, arguments = f"{number} {word}", arguments_of(word)
    yield ev.ToolCallStarted(call_id, number, word)
    yield ev.ToolArgsDelta(call_id, word, json.dumps(arguments))
    yield ev.ToolArgsCompleted(call_id, word, arguments)


def ended(words: Words) -> Iterator[ev.Event]:
    """Make a run in which each word is in each place, and that has failed with all of them."""
    yield ev.RunStarted("ended", "\n".join(words))
    yield ev.TurnStarted(1)
    for number, word in enumerate(words):
        # What becomes of a call is of three kinds: so three words are in each.
        first = number - number % 3
        some = words[first : first + 3]
        lines, told = "\n".join(some), {one: [one] for one in some}
        yield ev.ThinkingStarted(4 * number)
        yield ev.ThinkingDelta(word, 4 * number)
        yield ev.ThinkingCompleted(word, 4 * number)
        yield ev.TextDelta(word, 4 * number + 1)

        call_id = f"{number} {word}"
        yield from called(word, number)
        match number % 3:
            case 0:
                yield ev.ToolExecutionStarted(call_id, word, "key")
                yield ev.ToolOutputDelta(call_id, word, lines)
                yield ev.ToolCallCompleted(call_id, word, arguments_of(word), told)
                wrong = f"wrong {call_id}"
                yield ev.ToolCallStarted(wrong, number, word)
                yield ev.ToolArgsDelta(wrong, word, lines)
                error = ev.ArgumentsError(reason=lines, message=lines, path=(*some, 0))
                yield ev.ToolArgsInvalid(wrong, word, "malformed", lines, error)
            case 1:
                yield ev.ApprovalRequested(
                    call_id, word, arguments_of(word), "digest", lines, lines
                )
                yield ev.ApprovalDecided(call_id, word, "denied", lines)
                yield ev.ToolCallFailed(call_id, word, lines)
            case _:
                yield ev.ApprovalRequested(call_id, word, arguments_of(word), "digest", lines)
                yield ev.ApprovalDecided(call_id, word, "edited", lines, told)
                yield ev.ToolExecutionStarted(call_id, word, "key")
                yield ev.ToolCallFailed(call_id, word, told)
    yield ev.RunFailed(words[0], "\n".join(words), "ended")


def asking(words: Words) -> Iterator[ev.Event]:
    """Make a run that asks about each of the words."""
    yield ev.RunStarted("asking", words[0])
    yield ev.TurnStarted(1)
    requests = []
    for number, word in enumerate(words):
        yield from called(word, number)
        call_id = f"{number} {word}"
        digest = f"digest{number}"
        requests.append(ev.ApprovalRequested(call_id, word, arguments_of(word), digest, word, word))
        yield requests[-1]
    yield ev.RunPaused("asking", tuple(requests))


# The scenes: what is looked at, once with each of both


def look_at_all_that_was_written(visitor: Visitor, stage: Stage, words: Words) -> None:
    kept(stage.store, "ended", list(ended(words)))
    visitor.page.goto(f"{stage.url}/#/r/ended")
    expect(visitor.calls).to_have_count(_calls(words))
    open_everything(visitor.page)


def look_at_questions_and_their_editors(visitor: Visitor, stage: Stage, words: Words) -> None:
    kept(stage.store, "asking", list(asking(words)))
    visitor.page.goto(f"{stage.url}/#/r/asking")
    expect(visitor.button("Edit")).to_have_count(len(words))
    visitor.button("Edit").evaluate_all("(buttons) => buttons.forEach((one) => one.click())")
    expect(visitor.button("Approve changes")).to_have_count(len(words))


def look_at_it_while_it_is_written(visitor: Visitor, stage: Stage, words: Words) -> None:
    visitor.page.goto(stage.url)
    visitor.say("\n".join(words))
    visitor.sees("That is all.")
    expect(visitor.calls).to_have_count(len(words))
    open_everything(visitor.page)


def look_at_runs(visitor: Visitor, stage: Stage, words: Words) -> None:
    for number, word in enumerate(words):
        run_id = f"run{number}"
        events: list[ev.Event] = [ev.RunStarted(run_id, word), ev.RunFailed(word, word, run_id)]
        kept(stage.store, run_id, events, begun=1_700_000_000.0 + number)
    visitor.page.goto(f"{stage.url}/#/r/run0")  # and with it all that came after
    expect(visitor.conversation.get_by_role("article")).to_have_count(len(words))
    open_everything(visitor.page)
    expect(visitor.runs.get_by_role("listitem")).to_have_count(len(words))


def look_at_the_waterfall(visitor: Visitor, stage: Stage, words: Words) -> None:
    kept(stage.store, "ended", list(ended(words)))
    visitor.page.goto(f"{stage.url}/#/r/ended")
    visitor.button("Waterfall").click()
    more = visitor.region("Waterfall").get_by_role("button", name="Show")
    thoughts = visitor.region("Waterfall").get_by_role("row", name=re.compile("^Thinking "))

    def has_come() -> bool:
        more.evaluate_all("(buttons) => buttons.forEach((one) => one.click())")
        return thoughts.count() == len(words)

    eventually(has_come, 30)
    expect(more).to_have_count(0)


def look_at_the_replay(visitor: Visitor, stage: Stage, words: Words) -> None:
    kept(stage.store, "ended", list(ended(words)))
    visitor.page.goto(f"{stage.url}/#/r/ended")
    visitor.button("Replay").click()
    position = visitor.page.get_by_role("slider", name="Position")
    position.focus()
    visitor.page.keyboard.press("End")
    expect(visitor.region("Replay").locator("tool-call")).to_have_count(_calls(words))
    open_everything(visitor.page)


SCENES = (
    look_at_all_that_was_written,
    look_at_questions_and_their_editors,
    look_at_it_while_it_is_written,
    look_at_runs,
    look_at_the_waterfall,
    look_at_the_replay,
)


@pytest.mark.hypothesis  # so that `make soak-properties` has all words in each scene
@pytest.mark.parametrize("number", range(len(SCENES)), ids=lambda at: SCENES[at].__name__)
def test_what_is_written_is_all_seen_and_creates_no_element(
    browsing: Browsing, number: int
) -> None:
    some = slice(None) if IS_SOAK else slice(number % 3, None, 3)
    hostile = _seen(browsing, SCENES[number], HOSTILE[some])
    plain = _seen(browsing, SCENES[number], HARMLESS[some])
    assert _made_of(hostile) == _made_of(plain)
    assert hostile.attributes == plain.attributes
    shown = _joined(hostile.text)
    assert not [word for word in HOSTILE[some] if _joined(sanitise.visible(word)) not in shown]


def _seen(
    browsing: Browsing, scene: Callable[[Visitor, Stage, Words], None], words: Words
) -> Census:
    """Play a scene, check that nothing was done but shown, and count what there is."""
    parts = (part for word in words for part in (Think(word), Say(word), _call(word)))
    said: list[str] = []
    with on_stage(Reply(*parts), "That is all.", store=MemoryStore(), piece_size=64) as stage:
        page = browsing.page()
        page.on("dialog", lambda dialog: _dismiss(dialog, said))
        visitor = Visitor(page)
        scene(visitor, stage, words)
        census = take_census(page)
        asked_for = {_place(url, stage.url) for url in visitor.requested}
        assert len(page.context.pages) == 1
    assert not said
    assert census.pwned is None
    assert not census.suspects
    assert asked_for <= {"", "static", "api"}, asked_for
    for text in (census.text, *census.values):
        assert not hidden_characters(text), text
    return census


def _made_of(census: Census) -> Counter[str]:
    """Leave out what depends on words: colours in code are spans, and a long line has many rows."""
    made: Counter[str] = Counter()
    for kind, count in census.kinds.items():
        if not kind.startswith(
            ("xhtml:span", "xhtml:div.row", "xhtml:div.chunk", "xhtml:div.volume")
        ):
            # Whether it is long, in JSON, and whether it was seen while it went on, may differ.
            made[kind.removesuffix(".live").removesuffix(".is-long")] += count
    return made


def _dismiss(dialog: Dialog, said: list[str]) -> None:
    said.append(dialog.message)
    dialog.dismiss()


def _calls(words: Words) -> int:
    """Say how many calls the run has: one for each word, and those that were wrong."""
    return len(words) + math.ceil(len(words) / 3)


def _call(word: str) -> CallTool:
    return CallTool(word, arguments_of(word))


def _place(request: str, url: str) -> str:
    """Give the first part of the path that was asked for, or all of it if it is elsewhere."""
    asked = request.split(" ", 1)[1]
    return urlsplit(asked).path.split("/")[1] if asked.startswith(url) else asked


def _joined(text: str) -> str:
    """Leave out lines and tabs: lines are elements of their own, and tabs may be shown as such."""
    return text.replace("\n", "").replace("\t", "")
