"""The page is for everybody: by keyboard, by ear, with little motion, with a token, on a phone."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from argstream.models import CallTool, Reply, Say
from tests.page.conftest import Browsing
from tests.page.stage import on_stage
from tests.page.visitor import Visitor
from tests.server.talking import eventually

TOKEN = "a-token-of-good-length"

HEAR = """() => {
  window.heard = [];
  const region = document.querySelector('[role="status"]');
  new MutationObserver(() => {
    const text = region.textContent.trim();
    if (text !== "" && window.heard.at(-1) !== text) window.heard.push(text);
  }).observe(region, { childList: true, characterData: true, subtree: true });
}"""

# How a focused element shows that it is: by an outline or a shadow, of its own or of what holds it.
IS_SEEN = """() => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  if (element === document.body) return true; // the browser's own bars have it
  for (let at = element; at; at = at.parentElement) {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(at);
    if (outlineStyle !== "none" && parseFloat(outlineWidth) >= 1.5) return true;
    if (boxShadow !== "none") return true;
  }
  return false;
}"""

FOCUSED = """() => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  if (element === document.body) return "";
  return element?.ariaLabel || element?.innerText || element?.labels?.[0]?.innerText || "";
}"""

OFF_CENTRE = """(button) => {
  const range = document.createRange();
  range.selectNodeContents(button);
  const label = range.getBoundingClientRect(), box = button.getBoundingClientRect();
  const x = label.left + label.right - box.left - box.right;
  const y = label.top + label.bottom - box.top - box.bottom;
  return { x, y, height: box.height };
}"""

SHIFT = """() => {
  window.shifted = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.hadRecentInput) continue;
      const where = entry.sources.map(({ node, previousRect: from, currentRect: to }) => {
        const { className, nodeName, data = "" } = node ?? {};
        const name = className || nodeName;
        return `${name} ${data.slice(0, 30)} (${from.x},${from.y} ${from.width}x${from.height} to `
          + `${to.x},${to.y} ${to.width}x${to.height})`;
      });
      window.shifted.push(`${entry.value.toFixed(4)}: ${where.join("; ")}`);
    }
  }).observe({ type: "layout-shift", buffered: true });
}"""


def tab_to(page: Page, name: str, most: int = 40) -> None:
    """Go on with Tab until something of that name has the focus, which must be seen all the way."""
    for _ in range(most):
        page.keyboard.press("Tab")
        assert page.evaluate(IS_SEEN), page.evaluate(FOCUSED)
        if page.evaluate(FOCUSED).strip() == name:
            return
    pytest.fail(f"Tab does not come to {name}")


def test_a_run_is_begun_edited_and_approved_by_keyboard_alone(page: Page) -> None:
    call = CallTool("send_mail", {"to": "ada", "subject": "Lunch"})
    with on_stage(call, "It is sent.") as stage:
        visitor = Visitor(page, stage.url)
        expect(visitor.message).to_be_focused()
        page.keyboard.type("Ask Ada")
        page.keyboard.press("Enter")
        expect(visitor.button("Approve")).to_be_visible()
        tab_to(page, "Edit")
        page.keyboard.press("Enter")
        expect(visitor.field("to")).to_be_focused()
        page.keyboard.press("Control+A")
        page.keyboard.type("bob")
        tab_to(page, "Approve changes")
        expect(visitor.button("Approve changes")).to_be_enabled()
        page.keyboard.press("Enter")
        visitor.sees("It is sent.")
        assert [done["to"] for _, done in stage.tools.done] == ["bob"]
        # The focus is not lost with the button that had it.
        assert page.evaluate("document.activeElement !== document.body")


def test_what_is_said_aloud_is_few_whole_sentences(page: Page) -> None:
    story = " ".join(f"Word number {number}." for number in range(400))
    content = "".join(f"line {number}\n" for number in range(400))
    calls = [CallTool("write_file", {"path": f"{n}.txt", "content": content}) for n in range(3)]
    mail = CallTool("send_mail", {"to": "ada"})
    with on_stage(Reply(Say(story), *calls), mail, "It is done.") as stage:
        visitor = Visitor(page, stage.url)
        page.evaluate(HEAR)
        visitor.say("Do a lot")
        visitor.decides(visitor.button("Approve"))
        visitor.sees("It is done.")
        status = page.get_by_role("status")
        expect(status).to_contain_text("complete")
        heard = page.evaluate("window.heard")
        assert len(heard) <= 6
        assert any("send_mail asks for approval" in sentences for sentences in heard)
        for sentences in heard:
            assert re.fullmatch(r"(?:[A-Z_a-z][^.!?]*[.!?]\s?)+", sentences), sentences
            assert len(sentences) < 300
        live = page.locator("[aria-live], [role=status], [role=log], [role=alert], [role=timer]")
        speaking = [one.get_attribute("role") for one in live.all() if one.text_content()]
        assert speaking == ["status"]


LONG_TEXT = "A paragraph that goes on for a while, as they do. " * 20
LONG_FILE = "".join(f"line {number} of a file that is long\n" for number in range(300))
WRITE = CallTool("write_file", {"path": "long.txt", "content": LONG_FILE})
SEARCH = CallTool("search", {"query": "herons"})
MAIL = CallTool("send_mail", {"to": "ada"})


@pytest.mark.parametrize(
    "turns",
    [
        (Reply(Say(LONG_TEXT), WRITE), SEARCH, MAIL, LONG_TEXT),
        (Reply(Say(LONG_TEXT), WRITE, SEARCH, MAIL), LONG_TEXT),
    ],
    ids=["one after the other", "all at once"],
)
def test_nothing_moves_while_a_long_run_goes_on(page: Page, turns: tuple[Any, ...]) -> None:
    with on_stage(*turns, held=True, piece_size=64) as stage:
        visitor = Visitor(page, stage.url)
        visitor.say("Do a lot")
        visitor.sees("Do a lot")
        page.evaluate(SHIFT)
        for _ in range(12):
            stage.model.let(24)
            page.evaluate("new Promise((resolve) => setTimeout(resolve, 60))")
        stage.model.let()
        expect(visitor.calls.nth(1)).to_have_attribute("state", "running")
        stage.tools.may_find.set()
        expect(visitor.button("Approve")).to_be_visible()
        expect(visitor.calls.nth(1)).to_have_attribute("state", "completed")
        [run] = stage.client.get("/api/runs").json()["runs"]
        stage.client.decide(run["run"], decision="approve")
        visitor.sees_states("completed", "completed", "completed")
        expect(visitor.button("Send")).to_be_visible()
        shifted: list[str] = page.evaluate("window.shifted")
        assert sum(float(shift.split(":")[0]) for shift in shifted) < 0.02, "\n".join(shifted)


def test_who_wants_little_motion_gets_none(browsing: Browsing) -> None:
    with on_stage(CallTool("search", {"query": "herons"}), "Found.") as stage:
        moving = "document.getAnimations().filter((one) => one.playState === 'running').length"
        in_calls = (
            "[...document.querySelectorAll('tool-call')].flatMap((call) => "
            "[...call.shadowRoot.querySelectorAll('*')]).flatMap((one) => one.getAnimations())"
            ".filter((one) => one.playState === 'running').length"
        )
        visitor = Visitor(browsing.page(stage.url, reduced_motion="reduce"))
        visitor.say("Search")
        visitor.sees_states("running")
        assert visitor.page.evaluate(f"{moving} + {in_calls}") == 0
        usual = Visitor(browsing.page(visitor.page.url, reduced_motion="no-preference"))
        usual.sees_states("running")
        eventually(lambda: usual.page.evaluate(f"{moving} + {in_calls}"))
        stage.tools.may_find.set()
        usual.sees("Found.")


def test_a_server_with_a_token_asks_for_it_once(page: Page, browsing: Browsing) -> None:
    browsing.expect_faults("status of 40[13]")
    with on_stage("You may.", token=TOKEN) as stage:
        visitor = Visitor(page, stage.url)
        page.get_by_label("Token").fill("not the token at all")
        visitor.button("Sign in").click()
        problem = page.get_by_role("dialog")
        expect(problem).to_contain_text(re.compile("not|wrong", re.IGNORECASE))
        field, said = page.get_by_label("Token"), problem.get_by_role("alert")
        expect(said).not_to_be_empty()
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_attribute("aria-describedby", said.get_attribute("id") or "")
        expect(field).to_be_focused()
        page.get_by_label("Token").fill(TOKEN)
        visitor.button("Sign in").click()
        expect(page.get_by_role("dialog")).to_be_hidden()
        visitor.say("May I?")
        visitor.sees("You may.")
        page.reload()
        visitor.sees("You may.")
        assert TOKEN not in page.evaluate("document.cookie + JSON.stringify({...localStorage})")
        assert not any(TOKEN in asked for asked in visitor.requested)
        visitor.button("Sign out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        expect(visitor.conversation).not_to_contain_text("You may.")


def test_the_theme_is_chosen_and_kept(page: Page) -> None:
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    with on_stage() as stage:
        visitor = Visitor(page, stage.url)
        seen = {}
        button = page.get_by_role("button", name=re.compile("Theme"))
        for _ in range(3):
            seen[button.inner_text()] = page.evaluate(paper)
            button.click()
        assert len(seen) == 3
        assert seen["Theme: dark"] != seen["Theme: light"]
        assert seen["Theme: system"] == seen["Theme: light"]
        button.click()
        button.click()
        page.reload()
        expect(visitor.message).to_be_visible()
        assert page.evaluate(paper) == seen["Theme: dark"]


def test_on_a_phone_the_runs_are_in_a_dialog_and_nothing_is_wider_than_the_screen(
    browsing: Browsing,
) -> None:
    wide = "x" * 300
    with on_stage(CallTool("write_file", {"path": wide, "content": wide}), wide) as stage:
        page = browsing.page(
            stage.url, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True
        )
        visitor = Visitor(page)
        expect(visitor.runs).to_be_hidden()
        visitor.say("Write something wide")
        visitor.sees_states("completed")
        visitor.sees(wide)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        off = visitor.button("Waterfall").evaluate(OFF_CENTRE)
        assert off["height"] >= 44
        assert abs(off["x"]) < 2
        assert abs(off["y"]) < 2
        visitor.button("Runs").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("link", name="Write something wide")).to_be_visible()
        dialog.get_by_role("link", name="New conversation").click()
        expect(dialog).to_be_hidden()
        expect(visitor.conversation).not_to_contain_text(wide)
