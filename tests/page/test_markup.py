"""No text of a model, a tool or a user becomes markup, wherever it is shown (invariant 13).

Each run is shown twice, once with hostile texts and once with plain texts of the same shape. Both
pages must consist of the same elements. Links are the exception, and each is clicked.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Dialog, Page, expect

from argstream import events as ev
from argstream import sanitise
from argstream.models import CallTool, Reply, Say, Think
from tests.page.census import Census, hidden_characters, open_everything, take_census
from tests.page.looking import file_url
from tests.page.payloads import PAYLOADS, harmless
from tests.page.recorded import START, answered_run, keep_run
from tests.page.stage import Stage, on_stage
from tests.page.visitor import Visitor, requests_of

Texts = Sequence[str]
HARMLESS: Texts = [harmless(text, number) for number, text in enumerate(PAYLOADS)]


def arguments_of(text: str) -> dict[str, Any]:
    """Return arguments with the text as a key and as a value: short, long and nested."""
    return {text: text, "text": f"{text}\n" * 3, "nested": {text: [text, {text: [text]}]}}


def called(text: str, number: int) -> Iterator[ev.Event]:
    """Write a call whose name, ID and arguments are the text."""
    call_id, arguments = f"{number} {text}", arguments_of(text)
    yield ev.ToolCallStarted(call_id, number, text)
    yield ev.ToolArgsDelta(call_id, text, json.dumps(arguments))
    yield ev.ToolArgsCompleted(call_id, text, arguments)


def ended_run(texts: Texts) -> Iterator[ev.Event]:
    """Return a failed run with each text in each place."""
    yield ev.RunStarted("ended", "\n".join(texts))
    yield ev.TurnStarted(1)
    for number, text in enumerate(texts):
        # There are three kinds of outcomes, so each has three texts.
        first = number - number % 3
        some = texts[first : first + 3]
        lines, value = "\n".join(some), {one: [one] for one in some}
        yield ev.ThinkingStarted(4 * number)
        yield ev.ThinkingDelta(text, 4 * number)
        yield ev.ThinkingCompleted(text, 4 * number)
        yield ev.TextDelta(text, 4 * number + 1)

        call_id, arguments = f"{number} {text}", arguments_of(text)
        yield from called(text, number)
        match number % 3:
            case 0:
                yield ev.ToolExecutionStarted(call_id, text, "key")
                yield ev.ToolOutputDelta(call_id, text, lines)
                yield ev.ToolCallCompleted(call_id, text, arguments, value)
                wrong = f"wrong {call_id}"
                yield ev.ToolCallStarted(wrong, number, text)
                yield ev.ToolArgsDelta(wrong, text, lines)
                error = ev.ArgumentsError(reason="schema", message=lines, path=(*some, 0))
                yield ev.ToolArgsInvalid(wrong, text, "malformed", lines, error)
            case 1:
                yield ev.ApprovalRequested(call_id, text, arguments, "digest", lines, lines)
                yield ev.ApprovalDecided(call_id, text, "denied", lines)
                yield ev.ToolCallFailed(call_id, text, lines)
            case _:
                yield ev.ApprovalRequested(call_id, text, arguments, "digest", lines)
                yield ev.ApprovalDecided(call_id, text, "edited", lines, value)
                yield ev.ToolExecutionStarted(call_id, text, "key")
                yield ev.ToolCallFailed(call_id, text, value)
    yield ev.RunFailed(texts[0], "\n".join(texts), "ended")


def pending_run(texts: Texts) -> Iterator[ev.Event]:
    """Return a run with a pending call for each text."""
    yield ev.RunStarted("pending", texts[0])
    yield ev.TurnStarted(1)
    requests = []
    for number, text in enumerate(texts):
        yield from called(text, number)
        call_id, digest, arguments = f"{number} {text}", f"digest{number}", arguments_of(text)
        requests.append(ev.ApprovalRequested(call_id, text, arguments, digest, text, text))
        yield requests[-1]
    yield ev.RunPaused("pending", tuple(requests))


def written_inspector_and_replay(visitor: Visitor, stage: Stage, texts: Texts) -> Iterator[None]:
    keep_run(stage.store, ended_run(texts))
    visitor.page.goto(f"{stage.url}/#/r/ended")
    calls = len(texts) + math.ceil(len(texts) / 3)  # one per text, and the invalid ones
    expect(visitor.calls).to_have_count(calls)
    open_everything(visitor.page)
    yield

    visitor.button("Timeline").click()
    panel, keyboard = visitor.page.get_by_role("dialog", name="Inspector"), visitor.page.keyboard
    for name in ("Timeline", "Events"):
        panel.get_by_role("tab", name=name).click()
        panel.get_by_role("row").first.focus()
        for key in ("ArrowRight", "PageDown", "PageDown", "ArrowRight", "End"):
            keyboard.press(key)
            yield
    panel.get_by_role("tab", name="Timeline").click()
    for _ in range(7):
        rows = panel.locator(".timeline-row-call")
        rows.nth(rows.count() - 1).click()
        yield
        panel.get_by_role("tab", name="Timeline").click()
        panel.get_by_role("row").last.focus()
        keyboard.press("PageUp")
    keyboard.press("Escape")
    visitor.button("Replay").click()
    visitor.page.get_by_role("slider", name="Position").focus()
    visitor.page.keyboard.press("End")
    expect(visitor.region("Replay").locator("tool-call")).to_have_count(calls)
    open_everything(visitor.page)
    yield


def approvals_and_editors(visitor: Visitor, stage: Stage, texts: Texts) -> Iterator[None]:
    keep_run(stage.store, pending_run(texts))
    visitor.page.goto(f"{stage.url}/#/r/pending")
    expect(visitor.button("Edit")).to_have_count(len(texts))
    visitor.button("Edit").evaluate_all("(buttons) => buttons.forEach((one) => one.click())")
    expect(visitor.button("Approve with edits")).to_have_count(len(texts))
    yield


def live_run(visitor: Visitor, stage: Stage, texts: Texts) -> Iterator[None]:
    visitor.page.goto(stage.url)
    visitor.say("\n".join(texts))
    visitor.sees("That is all.")
    expect(visitor.calls).to_have_count(len(texts))
    open_everything(visitor.page)
    yield


def list_of_conversations(visitor: Visitor, stage: Stage, texts: Texts) -> Iterator[None]:
    for number, text in enumerate(texts):
        run_id = f"run{number}"
        events: list[ev.Event] = [ev.RunStarted(run_id, text), ev.RunFailed(text, text, run_id)]
        keep_run(stage.store, events, begun=START + number)
        keep_run(stage.store, answered_run(f"{run_id}-alone", text, text), conversation=run_id)
    visitor.page.goto(f"{stage.url}/#/r/run0")  # shows the later runs too
    expect(visitor.conversation.get_by_role("article")).to_have_count(len(texts))
    open_everything(visitor.page)
    expect(visitor.sidebar.get_by_role("listitem")).to_have_count(len(texts) + 1)
    yield


Scene = Callable[[Visitor, Stage, Texts], Iterator[None]]  # yields where elements are counted
SCENES: tuple[Scene, ...] = (
    approvals_and_editors,
    live_run,
    list_of_conversations,
)


THIRDS = [slice(number, None, 3) for number in range(3)]
CASES = [
    *(
        pytest.param(written_inspector_and_replay, some, id=f"third {some.start}")
        for some in THIRDS
    ),
    *(pytest.param(scene, slice(None), id=scene.__name__) for scene in SCENES),
]


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("scene", "some"), CASES)
def test_hostile_text_is_shown_and_creates_no_element(
    page: Page, scene: Scene, some: slice
) -> None:
    hostile = census_of(page, scene, PAYLOADS[some])
    plain = census_of(page, scene, HARMLESS[some])
    for one, other in zip(hostile, plain, strict=True):
        assert made_of(one) == made_of(other)
        assert one.attributes == other.attributes
        shown = joined(one.text)
        assert not [text for text in PAYLOADS[some] if joined(sanitise.visible(text)) not in shown]


LINKS = Path(__file__).with_name("markdown").joinpath("hostile-links.txt").read_text()


def test_links_of_a_model_never_leave_or_change_the_page(page: Page) -> None:
    with on_stage(LINKS) as stage:
        visitor, requests = Visitor(page, stage.url), requests_of(page)
        visitor.say("Show me links")
        visitor.sees("www.pwned.example")
        links, url = visitor.conversation.locator(".markdown a"), page.url
        assert links.count() > 5
        page.context.route("**/pwned.example/**", lambda route: route.abort())
        for link in links.all():
            assert re.match("https?:", link.get_attribute("href") or "")
            assert link.get_attribute("rel") == "noopener noreferrer"
            with page.expect_popup() as opened:
                link.click()
            opened.value.close()
        assert page.url == url
        assert {place_of(one, stage.url) for one in requests} <= {"", "static", "api"}
        assert page.evaluate("window.pwned") is None
        assert page.locator("img").count() == 0


def census_of(page: Page, scene: Scene, texts: Texts) -> list[Census]:
    """Play a scene, check that no text has acted, and count the elements."""
    dialogs: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    calls = ((Think(text), Say(text), CallTool(text, arguments_of(text))) for text in texts)
    reply = Reply(*(part for parts in calls for part in parts))
    with on_stage(reply, "That is all.", piece_size=64) as stage:
        page.on("dialog", dismiss)
        visitor, requests = Visitor(page), requests_of(page)
        censuses = [take_census(page) for _ in scene(visitor, stage, texts)]
        requested = {place_of(url, stage.url) for url in requests}
        assert len(page.context.pages) == 1
        page.goto(file_url("harness/blank.html"))
        page.remove_listener("dialog", dismiss)
    assert not dialogs
    assert requested <= {"", "static", "api"}, requested
    for census in censuses:
        assert census.pwned is None
        assert not census.suspects
        assert not hidden_characters("\n".join((census.text, *census.values)))
    return censuses


# Highlighted code has spans, a long line several rows, and mixed scripts a warning.
VARYING = ("xhtml:span", "xhtml:div.row", "xhtml:div.chunk", "xhtml:div.volume", "xhtml:div.warn")


def made_of(census: Census) -> Counter[str]:
    made: Counter[str] = Counter()
    for kind, count in census.kinds.items():
        if not kind.startswith(VARYING):
            # A text may be long only as JSON, and may be or have been seen live or not.
            made[re.sub(r"\.(?:live|was-live|is-long)(?![\w-])", "", kind)] += count
    return made


def place_of(request: str, url: str) -> str:
    """Return the first part of the requested path, or the whole URL if it is elsewhere."""
    requested = request.split(" ", 1)[1]
    return urlsplit(requested).path.split("/")[1] if requested.startswith(url) else requested


def joined(text: str) -> str:
    """Remove newlines and tabs: lines are elements, and tabs may be shown as such."""
    return text.replace("\n", "").replace("\t", "")
