"""``<tool-call>`` by itself, with calls made by hand: each state, and everything about a decision.

The page is made of files alone, under the policy of the real one; no server takes part.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from argstream import sanitise, server
from tests.page.conftest import Browsing
from tests.page.looking import screenshot
from tests.support import program_is_missing

HARNESS = Path(__file__).parent / "harness"
STATIC = Path(server.__file__).parent / "static"
AXE = Path(__file__).parents[1] / "server/node/node_modules/axe-core/axe.min.js"
ORIGIN = "http://tool-call.test"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
MAIL = {"to": "ada@example.org", "body": "Today at one?\nAt the pond.", "copies": 2}


@cache
def visible_table() -> str:
    return f"export const table = {json.dumps(sanitise.table())};"


def give(route: Route) -> None:
    """Answer with a file of the harness, or of the element."""
    path = route.request.url.removeprefix(ORIGIN)
    if path == "/static/visible-table.js":
        route.fulfill(body=visible_table(), content_type="text/javascript; charset=utf-8")
        return
    below = path.removeprefix("/static/")
    file = HARNESS / path.removeprefix("/harness/") if below == path else STATIC / below
    kind = KINDS[file.suffix]
    route.fulfill(
        body=file.read_bytes(),
        headers={
            "content-type": f"{kind}; charset=utf-8",
            **({"content-security-policy": POLICY} if kind == "text/html" else {}),
        },
    )


def harness(context: BrowserContext) -> Page:
    """Open the page that shows calls by hand."""
    context.route(f"{ORIGIN}/**", give)
    page = context.new_page()
    page.goto(f"{ORIGIN}/harness/tool-call.html")
    page.wait_for_selector("html[data-ready]", state="attached")
    return page


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return harness(context)


class Card:
    """One call on the page."""

    def __init__(self, page: Page, script: str, **options: Any) -> None:
        """Show a call; ``script`` is what it differs by, in JavaScript."""
        self.page = page
        self.at: int = page.evaluate(
            f"""(options) => {{
              const element = show({script}, options);
              return [...document.querySelectorAll('tool-call')].indexOf(element);
            }}""",
            options,
        )
        self.element: Locator = page.locator("tool-call").nth(self.at)
        expect(self.element).to_have_attribute("state", re.compile("."))

    @classmethod
    def asking(
        cls, page: Page, given: object = MAIL, request: str = "{}", **options: Any
    ) -> "Card":
        return cls(
            page,
            f"{{state: 'asking', arguments: {json.dumps(given)}, request: {request}}}",
            **options,
        )

    @property
    def head(self) -> Locator:
        return self.element.locator(".head")

    @property
    def strip(self) -> Locator:
        return self.element.locator(".strip")

    def button(self, name: str) -> Locator:
        return self.element.get_by_role("button", name=name, exact=True)

    def field(self, name: str) -> Locator:
        return self.element.get_by_role("textbox", name=name, exact=True)

    @property
    def changes(self) -> Locator:
        return self.element.locator(".changes")

    def becomes(self, script: str) -> None:
        """Go on with the call; ``script`` is what changes."""
        self.page.evaluate(
            f"(at) => change(document.querySelectorAll('tool-call')[at], {script})", self.at
        )


def decided(page: Page) -> Any:
    """Give what was decided, each as ``(call id, decision)``."""
    return json.loads(
        page.evaluate(
            """JSON.stringify(decided.flatMap((one) => Object.entries(one)),
                 (_, value) => typeof value === 'bigint' ? `big ${value}` : value)"""
        )
    )


def answer(page: Page, script: str) -> None:
    """Say how the next decision is answered: a text refuses it, a promise is one."""
    page.evaluate(f"() => {{ answers.push({script}); }}")


# What is seen


STATES = [
    ("{state: 'writing', verdict: null}", "being written", ""),
    ("{state: 'written'}", "written", "Whole, and not begun."),
    ("{state: 'approved', decision: {decision: 'edited'}}", "approved", "approved with changes"),
    ("{state: 'running', output: 'one\\ntwo\\n'}", "running", "running… two"),
    ("{state: 'completed', result: '\\n  42 files\\nmore'}", "done", "42 files"),
    ("{state: 'completed', result: {id: 12345678901234567890n}}", "done", "12345678901234567890"),
    ("{state: 'completed'}", "done", "done"),
    ("{state: 'failed', result: 'TimeoutError: 30 s'}", "failed", "failed: TimeoutError: 30 s"),
    ("{state: 'denied', decision: {decision: 'denied', reason: 'no'}}", "denied", "denied: no"),
    (
        "{state: 'denied', decision: {decision: 'expired', reason: 'late'}}",
        "expired",
        "expired: late",
    ),
    (
        "{state: 'denied', decision: {decision: 'withdrawn', reason: 'stopped'}}",
        "withdrawn",
        "stopped",
    ),
    (
        """{state: 'invalid', verdict: 'truncated',
            error: {message: 'it ends', path: ['a', 0, 'b c']}}""",
        "cut off",
        'cut off: it ends (at a[0]["b c"])',
    ),
    (
        """{state: 'invalid', verdict: 'rejected',
            error: {message: 'path is missing', path: ['path']}}""",
        "rejected",
        "rejected: path is missing",
    ),
    ("{state: 'lost'}", "lost", "The turn was cut off and began again."),
]


def test_each_state_is_said_in_words(page: Page) -> None:
    for call, state, said in STATES:
        card = Card(page, call)
        expect(card.head).to_have_accessible_name(re.compile(rf"^write_file {state}"))
        expect(card.strip).to_contain_text(said)
        expect(card.strip).to_be_visible(visible=said != "")


def test_the_dot_pulses_only_while_something_goes_on(page: Page) -> None:
    pulses = "dot => getComputedStyle(dot, '::before').animationName === 'pulse'"
    for state in ("writing", "running", "written", "approved", "asking", "completed"):
        card = Card(page, f"{{state: '{state}', request: {{}}}}", open=False)
        expect(card.head).to_be_visible()
        assert card.element.locator(".dot").evaluate(pulses) == (state in ("writing", "running"))
    page.emulate_media(reduced_motion="reduce")
    assert not page.locator("tool-call[state=writing] .dot").evaluate(pulses)


def test_the_counter_moves_while_it_is_written_and_is_not_read_out(page: Page) -> None:
    card = Card(
        page, "{state: 'writing', verdict: null, arguments: {a: 'x'}, startedAt: 1}", open=False
    )
    expect(card.head).to_contain_text("2 characters")
    expect(card.head).to_contain_text(re.compile(r"0\.[3-9] s"))
    card.becomes("{arguments: {a: 'one\\ntwo'}}")
    expect(card.head).to_contain_text("8 characters · 2 lines")
    expect(card.head).to_have_accessible_name("write_file being written")
    card.becomes("{state: 'completed', executedAt: 100, endedAt: 161.2}")
    expect(card.head).to_have_accessible_name("write_file done 1 min 01 s")


def test_of_what_began_before_it_was_seen_nobody_says_how_long_it_takes(page: Page) -> None:
    card = Card(page, "{state: 'running'}", open=False)
    expect(card.head).to_contain_text("> 0.")


def test_it_opens_and_closes_by_keyboard(page: Page) -> None:
    card = Card(page, "{state: 'written', arguments: {path: 'notes.txt'}}", open=False)
    expect(card.element.get_by_text("notes.txt")).to_be_hidden()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(card.element.get_by_text("notes.txt")).to_be_visible()
    expect(card.head).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Space")
    expect(card.element).not_to_have_attribute("open", "")


def test_a_name_without_end_stays_within_the_page(page: Page) -> None:
    name = "x" * 500
    card = Card(page, f"{{name: '{name}'}}", open=False)
    expect(card.element.locator(".name")).to_have_attribute("title", name)
    card.head.click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_strip_has_its_height_from_the_beginning(page: Page) -> None:
    card = Card(page, "{state: 'writing', verdict: null, arguments: {path: 'a'}}")
    expect(card.element).to_contain_text("path")
    heights = []
    request = "request: {reason: 'why', digest: 'd', arguments: {path: 'a'}}"
    for state in (
        "state: 'writing'",
        f"state: 'asking', {request}",
        "state: 'completed', result: 'x'",
    ):
        card.becomes(f"{{verdict: 'complete', {state}}}")
        if "asking" in state:
            expect(card.button("Approve")).to_be_visible()
        elif "completed" in state:
            expect(card.button("Show result")).to_be_visible()
        heights.append(card.element.evaluate("element => element.offsetHeight"))
    assert len(set(heights)) == 1


def test_results_and_output_open_on_request(page: Page) -> None:
    card = Card(page, "{state: 'running', output: 'reading\\n'}")
    card.button("Show output").click()
    output = card.element.get_by_label("Output", exact=True)
    expect(output).to_contain_text("reading")
    card.becomes("{output: 'reading\\nwriting\\n'}")
    expect(output).to_contain_text("writing")
    card.becomes(
        """{state: 'completed', outcome: 'completed',
            result: {sent: [1, 2], id: 12345678901234567890n}}"""
    )
    card.button("Show result").click()
    result = card.element.get_by_label("Result", exact=True)
    expect(result).to_contain_text('"id": 12345678901234567890')
    expect(output).to_have_count(0)
    card.button("Hide result").click()
    expect(result).to_have_count(0)
    failed = Card(page, "{state: 'failed', result: 'Error: one\\nTraceback two'}")
    failed.button("Show error").click()
    expect(failed.element.get_by_label("Result", exact=True)).to_contain_text("Traceback two")


def test_what_was_edited_is_shown_against_what_the_model_wrote(page: Page) -> None:
    card = Card(
        page,
        """{state: 'completed', result: 'sent', arguments: {to: 'ada', body: 'x'}, request: {},
            decision: {decision: 'edited',
              edited_arguments: {to: 'bob', body: 'x', copy: true}}}""",
    )
    card.button("Show changes").click()
    expect(card.changes.locator(".removed")).to_have_text(re.compile("ada"))
    expect(card.changes.locator(".added")).to_have_text([re.compile("bob"), re.compile("true")])
    expect(card.changes).to_contain_text("copy · new")
    expect(card.changes).not_to_contain_text("body")


def test_what_a_sub_agent_says_is_inside_and_its_calls_are_counted(page: Page) -> None:
    card = Card(page, "{state: 'running', name: 'ask_researcher'}")
    page.evaluate(
        """() => {
          const outer = document.querySelector('tool-call');
          const row = document.createElement('div');
          outer.append('I look first.', row);
          show({state: 'completed', name: 'list_files'}, {open: false, into: row});
          const inner = show({state: 'running', name: 'ask_another'}, {into: row});
          show({state: 'running', name: 'read_file'}, {open: false, into: inner});
        }"""
    )
    expect(card.head.first).to_contain_text("2 calls")
    expect(page.get_by_text("I look first.")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("read_file running"))).to_be_visible()
    page.evaluate(
        "change(document.querySelectorAll('tool-call')[3], {state: 'asking', request: null})"
    )
    expect(card.head.first).to_contain_text("2 calls, 1 asking")
    card.head.first.click()
    expect(page.get_by_role("button", name=re.compile("list_files"))).to_have_count(0)


# Decisions


def test_what_is_approved_is_the_request_that_was_shown(page: Page) -> None:
    card = Card.asking(page, request="{reason: 'it costs money', digest: 'd1'}")
    expect(card.strip).to_contain_text("asks: it costs money")
    for text in ("ada@example.org", "Today at one?", "At the pond."):
        expect(card.element.get_by_text(text)).to_be_visible()
    card.button("Approve").click()
    assert decided(page) == [["call-1", {"decision": "approve", "digest": "d1"}]]


def test_if_the_request_is_about_other_arguments_these_are_shown(page: Page) -> None:
    card = Card.asking(page, request="{arguments: {to: 'eve@example.org'}}")
    expect(card.element.get_by_label("What is asked about")).to_contain_text("eve@example.org")


def test_an_approval_can_hold_for_more(page: Page) -> None:
    card = Card.asking(page, request="{digest: 'd', rule: 'outside'}")
    menu = card.element.get_by_role("combobox", name="Approval holds for")
    expect(menu).to_have_value("")
    menu.select_option("session")
    card.button("Approve").click()
    other = Card.asking(page, request="{digest: 'e', rule: 'outside'}")
    other.element.get_by_role("combobox").select_option("rule")
    other.button("Approve").click()
    assert [decision["always"] for _, decision in decided(page)] == ["session", "rule"]
    without = Card.asking(page)
    expect(without.element.get_by_role("option")).to_have_count(2)


def test_it_is_busy_until_it_is_known_what_became_of_it(page: Page) -> None:
    card = Card.asking(page)
    answer(page, "new Promise((_, reject) => { window.refuse = reject; })")
    card.button("Approve").click()
    expect(card.strip).to_have_attribute("aria-busy", "true")
    for name in ("Approve", "Edit", "Deny"):
        expect(card.button(name)).to_be_disabled()
    page.keyboard.press("Enter")  # the focus is still on the button
    page.evaluate("refuse(new Error('somebody was faster\\u202e'))")
    expect(card.element.get_by_role("alert")).to_have_text("somebody was faster⟦RLO⟧")
    expect(card.button("Approve")).to_be_focused()
    card.button("Approve").click()
    expect(card.element.get_by_role("alert")).to_have_text("")
    assert len(decided(page)) == 2


def test_after_a_decision_the_pill_has_the_focus(page: Page) -> None:
    card = Card.asking(page)
    card.button("Approve").click()
    card.becomes("{state: 'running', decision: {decision: 'approved', reason: ''}}")
    expect(card.strip).to_contain_text("running")
    expect(card.head).to_be_focused()


def test_a_question_takes_the_focus_from_nobody(page: Page) -> None:
    page.evaluate("document.querySelector('main').append(document.createElement('textarea'))")
    page.locator("main > textarea").focus()
    card = Card(page, "{state: 'writing', verdict: null}")
    card.becomes("{state: 'asking', request: {reason: '', digest: 'd', arguments: {}}}")
    expect(card.button("Approve")).to_be_visible()
    expect(page.locator("main > textarea")).to_be_focused()


def test_a_denial_asks_why_first(page: Page) -> None:
    card = Card.asking(page, request="{digest: 'd'}")
    card.button("Deny").click()
    reason = card.field("Reason")
    expect(reason).to_be_focused()
    reason.press("Escape")
    expect(card.button("Deny")).to_be_focused()
    expect(reason).to_have_count(0)
    card.button("Deny").click()
    reason.fill("not on a Friday")
    reason.press("Enter")
    assert decided(page) == [
        ["call-1", {"decision": "deny", "digest": "d", "reason": "not on a Friday"}]
    ]
    card.becomes("{state: 'denied', decision: {decision: 'denied', reason: 'not on a Friday'}}")
    expect(card.head).to_be_focused()


def test_a_denial_needs_no_reason_and_no_rule(page: Page) -> None:
    card = Card.asking(page, request="{digest: 'd'}")
    card.element.get_by_role("combobox").select_option("session")
    card.button("Deny").click()
    card.button("Cancel").click()
    expect(card.button("Deny")).to_be_focused()
    card.button("Deny").click()
    card.button("Deny").click()
    assert decided(page) == [["call-1", {"decision": "deny", "digest": "d"}]]


def test_it_says_how_long_there_is_left(page: Page) -> None:
    soon = Card.asking(page, request="{expires_at: Date.now() / 1000 + 95}")
    expect(soon.strip).to_contain_text(re.compile(r"1 min 3\d s left to decide"))
    over = Card.asking(page, request="{expires_at: 5}")
    expect(over.strip).to_contain_text("the time to decide is over")
    # The server's clock is years behind; what it says of both times is enough.
    skewed = Card(page, "{state: 'asking', requestedAt: 100, request: {expires_at: 130}}")
    expect(skewed.strip).to_contain_text(re.compile(r"(30|2\d) s left"))


def test_nothing_can_be_decided_in_a_replay(page: Page) -> None:
    card = Card.asking(page, decidable=False)
    expect(card.strip).to_contain_text("asks: it writes outside of the folder")
    expect(card.button("Approve")).to_have_count(0)


def test_a_page_without_a_listener_says_so(page: Page) -> None:
    card = Card.asking(page)
    page.evaluate(
        """() => {
          const old = document.querySelector('tool-call');
          const fresh = document.createElement('tool-call');
          fresh.call = old.call; fresh.open = true;
          old.replaceWith(fresh);
        }"""
    )
    card.button("Approve").click()
    expect(card.element.get_by_role("alert")).to_have_text("Nothing on this page takes decisions.")


# What was not meant


NOT_STILL = "It moved just now: press again."


def centre(locator: Locator) -> tuple[float, float]:
    box = locator.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def press_at(page: Page, locator: Locator, count: int = 1) -> None:
    """Press the mouse there, at once, whatever is there."""
    page.mouse.click(*centre(locator), click_count=count)


def test_two_clicks_on_cancel_approve_nothing(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})  # there, Approve is where Cancel was
    card = Card.asking(page)
    for first in ("Deny", "Edit"):
        card.button(first).click()
        # Wherever Approve will be, under whatever part of Cancel it comes.
        box = card.button("Cancel").bounding_box()
        assert box is not None
        for share in (0.1, 0.5, 0.9):
            page.mouse.dblclick(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
            assert decided(page) == []
            if card.button("Cancel").count():  # the second was on what leads there
                card.button("Cancel").click()
            card.button(first).click()
        card.button("Cancel").click()
    # Nor is it denied by two clicks on the first of both.
    page.mouse.dblclick(*centre(card.button("Deny")))
    assert decided(page) == []


def test_what_decides_has_to_be_there_for_a_moment(page: Page) -> None:
    early = page.evaluate(
        """async () => {
          const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
          const begun = performance.now();
          const element = show({ state: 'asking', arguments: { a: 1 }, request: {} });
          const named = (name) => [...element.shadowRoot.querySelectorAll('.strip button')]
            .find((one) => one.textContent === name);
          while (!named('Approve')) await pause(5);
          const { width } = named('Approve').getBoundingClientRect();
          const seen = [named('Approve').ariaDisabled, named('Deny').ariaDisabled];
          while (performance.now() - begun < 300) {
            named('Approve').click();
            await pause(10);
          }
          while (named('Approve').ariaDisabled) await pause(5);
          const isEqual = named('Approve').getBoundingClientRect().width === width;
          return { seen, decided: decided.length, took: performance.now() - begun, isEqual };
        }"""
    )
    assert early["seen"] == ["true", None]
    assert early["decided"] == 0
    assert 390 < early["took"] < 3000
    assert early["isEqual"]
    card = Card.asking(page)
    expect(card.button("Approve")).to_be_enabled()
    # Who comes back to the page has to see it first.
    assert (
        card.element.locator(".main").evaluate(
            """button => {
              document.dispatchEvent(new Event('visibilitychange'));
              return button.ariaDisabled;
            }"""
        )
        == "true"
    )
    expect(card.button("Approve")).to_be_enabled()
    card.head.click()
    expect(card.element.locator(".main")).to_have_attribute("aria-disabled", "true")
    card.head.click()
    card.button("Approve").focus()
    expect(card.button("Approve")).to_be_enabled()
    page.keyboard.press("Enter")
    assert [call for call, _ in decided(page)] == ["call-2"]


def test_what_has_just_come_under_the_pointer_is_not_pressed(page: Page) -> None:
    card = Card.asking(page)
    approve = card.button("Approve")
    expect(approve).to_be_enabled()
    # It moves by a pixel, again and again and never back: however slow this is, it has moved.
    page.evaluate(
        """() => {
          const spacer = document.createElement('div');
          document.body.prepend(spacer);
          window.moving = setInterval(() => {
            spacer.style.height = `${spacer.offsetHeight + 1}px`;
          }, 30);
        }"""
    )
    page.wait_for_timeout(200)
    press_at(page, approve)
    expect(card.element.get_by_role("alert").filter(has_text="moved")).to_have_text(NOT_STILL)
    assert decided(page) == []
    # By keyboard it makes no difference: the focus was there before.
    approve.focus()
    page.keyboard.press("Enter")
    assert len(decided(page)) == 1
    denied = Card.asking(page)
    denied.button("Deny").evaluate("button => button.click()")
    expect(denied.button("Deny")).to_be_enabled()
    press_at(page, denied.button("Deny"))
    expect(denied.strip).to_contain_text(NOT_STILL)
    denied.field("Reason").press("Enter")
    assert len(decided(page)) == 2
    page.evaluate("clearInterval(moving)")
    other = Card.asking(page)
    expect(other.button("Approve")).to_be_enabled()
    page.wait_for_timeout(600)
    press_at(page, other.button("Approve"), count=2)  # as one and two, of which one counts
    expect(other.strip).to_have_attribute("aria-busy", "true")
    assert len(decided(page)) == 3


def test_nothing_is_approved_before_all_of_it_is_shown(page: Page) -> None:
    told = page.evaluate(
        """async () => {
          const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
          const items = Array.from({ length: 30_000 }, (_, at) => at);
          const given = { items, target: '/etc/passwd' };
          const element = show({ state: 'asking', arguments: given, request: {} });
          const root = element.shadowRoot;
          const named = (name) => [...root.querySelectorAll('.strip button')]
            .find((one) => one.textContent === name);
          while (!named('Approve')) await pause(5);
          const words = new Set();
          const isShown = () => [...root.querySelectorAll('.value')].at(-1)?.textContent
            === '/etc/passwd';
          const early = [];
          while (!isShown()) {
            named('Approve').click();
            words.add(root.querySelector('.said').textContent);
            early.push([named('Approve').ariaDisabled, named('Deny').ariaDisabled]);
            await pause(30);
          }
          return { decided: decided.length, words: [...words], early };
        }"""
    )
    assert told["decided"] == 0
    assert len(told["early"]) > 5
    assert all(one == ["true", None] for one in told["early"])
    assert re.search(r"still being shown: \d+ %", told["words"][-1])
    card = page.locator("tool-call")
    approve = card.get_by_role("button", name="Approve", exact=True)
    expect(approve).to_be_enabled()
    expect(approve).to_have_accessible_description(
        re.compile("138,912 characters: scroll to read all")
    )
    approve.click()
    assert len(decided(page)) == 1


def test_what_is_decided_on_is_read_from_its_beginning(page: Page) -> None:
    lines = "\\n".join(f"line {number}" for number in range(90))
    tops = """element => ['.arguments', '.code'].map(
      (name) => element.shadowRoot.querySelector(name).scrollTop)"""
    given = "{path: 'a.txt', content: '%s', more: {}}"
    writing = f"{{state: 'writing', verdict: null, arguments: {given % ''}}}"
    asks = f"""{{state: 'asking', verdict: 'complete', request: {{reason: 'why', digest: 'd',
      arguments: {given % lines}}}}}"""
    for is_read in (False, True):
        card = Card(page, writing, unfinished="content")
        expect(card.element.locator(".code")).to_be_visible()
        card.element.evaluate(
            """(element, text) => {
              element.call.root.children[1].text = text;
              element.refresh();
            }""",
            lines.replace("\\n", "\n"),
        )
        expect(card.element.get_by_text("line 89")).to_be_visible()
        page.wait_for_function(
            "element => element.shadowRoot.querySelector('.code').scrollTop > 300",
            arg=card.element.element_handle(),
        )
        if is_read:
            card.element.locator(".code").hover()
            page.mouse.wheel(0, -40)
            page.wait_for_timeout(150)
        before = card.element.evaluate(tops)
        card.becomes(asks)
        expect(card.button("Approve")).to_be_enabled()
        after = card.element.evaluate(tops)
        assert after == (before if is_read else [0, 0])
        expect(card.strip).to_contain_text(re.compile(r"90 lines, \d+ characters: scroll"))
        card.element.evaluate("element => element.remove()")
    short = Card.asking(page)
    expect(short.button("Approve")).to_be_enabled()
    expect(short.strip).not_to_contain_text("scroll")


# The editor


def test_what_is_edited_is_sent_and_the_rest_is_exactly_the_models(page: Page) -> None:
    card = Card(
        page,
        """{state: 'asking', request: {digest: 'd'}, arguments: JSON.parse(
          '{"to": "ada\\u202e\\\\r\\\\n", "id": 0, ' +
          '"__proto__": {"a": [1.5, null]}, "note": "\\u27e6ESC\\u27e7"}',
          (key, value) => key === 'id' ? 12345678901234567890n : value)}""",
    )
    card.button("Edit").click()
    expect(card.field("to")).to_be_focused()
    expect(card.field("to")).to_have_value("ada⟦RLO⟧⟦CR⟧\n")
    expect(card.field("id")).to_have_value("12345678901234567890")
    expect(card.field("note")).to_have_value("⟦U+27E6⟧ESC⟧")
    expect(card.button("Approve changes")).to_be_disabled()
    expect(card.button("Approve changes")).to_have_accessible_description("Nothing is changed yet.")
    card.field("id").fill("12345678901234567891")
    expect(card.changes.locator(".removed")).to_contain_text("12345678901234567890")
    expect(card.changes.locator(".added")).to_contain_text("12345678901234567891")
    card.button("Approve changes").click()
    [(_, decision)] = decided(page)
    assert decision == {
        "decision": "approve",
        "digest": "d",
        "arguments": {
            "to": "ada\u202e\r\n",
            "id": "big 12345678901234567891",
            "__proto__": {"a": [1.5, None]},
            "note": "⟦ESC⟧",
        },
    }


def test_what_cannot_be_read_is_said_at_its_field(page: Page) -> None:
    card = Card.asking(page)
    card.button("Edit").click()
    card.field("copies").fill("{")
    expect(card.field("copies")).to_have_attribute("aria-invalid", "true")
    expect(card.field("copies")).to_have_accessible_description(re.compile("^not valid JSON: "))
    expect(card.button("Approve changes")).to_be_disabled()
    expect(card.changes).to_have_text("What is marked cannot be read, so it is not compared.")
    card.button("Edit as JSON").click()
    expect(card.field("copies")).to_be_focused()
    card.field("copies").fill("3")
    expect(card.button("Approve changes")).to_be_enabled()
    expect(card.field("copies")).not_to_have_attribute("aria-invalid", "true")


def test_all_arguments_can_be_edited_as_json(page: Page) -> None:
    card = Card.asking(page)
    card.button("Edit").click()
    expect(card.element.get_by_role("region", name="Changes", exact=True)).to_be_visible()
    card.field("to").fill("bob")
    card.button("Edit as JSON").click()
    whole = card.field("Arguments as JSON")
    expect(whole).to_be_focused()
    assert json.loads(whole.input_value()) == MAIL | {"to": "bob"}
    whole.fill("[]")
    expect(whole).to_have_accessible_description("arguments are an object: { … }")
    whole.fill('{"to": "eve", "when": "now"}')
    for words in ("body · taken away", "copies · taken away", "when · new"):
        expect(card.changes).to_contain_text(words)
    card.button("Edit in fields").click()
    expect(card.field("when")).to_have_value("now")
    card.button("Approve changes").click()
    [(_, decision)] = decided(page)
    assert decision["arguments"] == {"to": "eve", "when": "now"}


def test_who_edits_a_call_without_arguments_writes_json(page: Page) -> None:
    card = Card.asking(page, {})
    card.button("Edit").click()
    whole = card.field("Arguments as JSON")
    expect(whole).to_be_focused()
    unsent = "element => element.hasUnsentEdit"
    assert card.element.evaluate(unsent) is False
    whole.fill('{"to": {"a": 1, "b": [{"c": "}"}, {"c": 2}], "\\u0061": 2}}')
    expect(whole).to_have_accessible_description('given twice: "a"')
    expect(whole).to_have_attribute("aria-invalid", "true")
    expect(card.changes).to_have_text("What is marked cannot be read, so it is not compared.")
    assert card.element.evaluate(unsent) is True
    for text, wrong in (
        ('{"a": "x", "b": {"a": "\\"a\\": 1"}, "c": ["a", "a"]}', ""),
        ('{"a\\u202e": 1, "a\\u202e": 2}', 'given twice: "a⟦RLO⟧"'),
        ('{"a": [[], {}, {"b": {}, "b": []}]}', 'given twice: "b"'),
        ('{"__proto__": 1, "constructor": 2}', ""),
    ):
        whole.fill(text)
        expect(whole).to_have_accessible_description(wrong)
    card.button("Approve changes").click()
    assert [decision["arguments"] for _, decision in decided(page)] == [
        {"__proto__": 1, "constructor": 2}
    ]
    assert card.element.evaluate(unsent) is False
    many = Card.asking(page, {f"key {number}": number for number in range(101)})
    many.button("Edit").click()
    expect(many.field("Arguments as JSON")).to_be_focused()
    many.field("Arguments as JSON").fill("{}")
    expect(many.changes).to_contain_text("and 1 argument more")


def test_who_gives_up_an_edit_is_back_where_it_began(page: Page) -> None:
    card = Card.asking(page)
    card.button("Edit").click()
    card.field("to").fill("bob")
    card.field("to").press("Escape")  # which must not lose what was typed
    expect(card.field("to")).to_have_value("bob")
    expect(card.changes).to_contain_text("bob")
    card.button("Cancel").click()
    expect(card.button("Edit")).to_be_focused()
    expect(card.element.get_by_text("ada@example.org")).to_be_visible()
    card.button("Edit").click()
    card.field("to").press("Escape")
    expect(card.button("Edit")).to_be_focused()
    assert decided(page) == []


def test_a_refused_edit_stays_as_it_was_typed(page: Page) -> None:
    card = Card.asking(page)
    answer(page, "'to: must be an address'")
    card.button("Edit").click()
    card.field("to").fill("nobody")
    card.button("Approve changes").click()
    expect(card.element.get_by_role("alert")).to_have_text("to: must be an address")
    expect(card.field("to")).to_have_value("nobody")
    card.field("to").fill("bob@example.org")
    card.button("Approve changes").click()
    card.becomes("{state: 'running', decision: {decision: 'edited', reason: ''}}")
    expect(card.field("to")).to_have_count(0)
    expect(card.head).to_be_focused()
    assert [one["arguments"]["to"] for _, one in decided(page)] == ["nobody", "bob@example.org"]


def test_what_was_typed_can_be_read_although_somebody_else_has_decided(page: Page) -> None:
    card = Card.asking(page)
    card.button("Edit").click()
    card.field("body").fill("A long letter")
    card.becomes("{state: 'denied', decision: {decision: 'denied', reason: 'no'}}")
    expect(card.element).to_contain_text("Decided elsewhere: denied. What you typed was not sent.")
    expect(card.field("body")).to_have_value("A long letter")
    expect(card.field("body")).not_to_be_editable()
    expect(card.button("Approve changes")).to_have_count(0)
    card.button("Dismiss").click()
    expect(card.field("body")).to_have_count(0)
    expect(card.head).to_be_focused()


def test_a_decision_that_comes_second_is_refused_and_said(page: Page) -> None:
    card = Card.asking(page)
    answer(page, "new Promise((_, reject) => { window.refuse = reject; })")
    card.button("Edit").click()
    card.field("to").fill("bob")
    card.button("Approve changes").click()
    card.becomes("{state: 'denied', decision: {decision: 'denied', reason: 'no'}}")
    expect(card.element).to_have_attribute("state", "denied")
    expect(card.field("to")).to_be_visible()
    page.evaluate("refuse(new Error('it was decided already'))")
    expect(card.element).to_contain_text("Decided elsewhere: denied.")
    expect(card.field("to")).to_have_value("bob")


def test_of_a_large_text_only_what_was_changed_is_shown_and_all_of_it_is_sent(page: Page) -> None:
    lines = "\n".join(f"line {number} of a large text" for number in range(8000))
    card = Card.asking(page, {"text": lines})
    card.button("Edit").click()
    card.field("text").evaluate("field => field.setSelectionRange(100, 100)")
    card.field("text").press_sequentially("hello", delay=30)
    expect(card.changes.locator(".added")).to_contain_text("hello")
    expect(card.changes).to_contain_text("equal lines")
    card.button("Approve changes").click()
    assert len(decided(page)[0][1]["arguments"]["text"]) == len(lines) + 5


# As a part of any page


def test_what_is_taken_away_stands_still_and_goes_on_when_it_is_back(
    context: BrowserContext,
) -> None:
    page = harness(context)
    seen = page.evaluate(
        """async () => {
          const kept = show({state: 'running', name: 'kept'}, {open: false});
          const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
          const text = () => kept.shadowRoot.querySelector('.time').textContent;
          await pause(300);
          kept.remove();
          const gone = text();
          await pause(300);
          const still = text();
          document.querySelector('main').append(kept);
          await pause(300);
          return { gone, still, back: text() };
        }"""
    )
    assert seen["gone"] == seen["still"] != seen["back"]


def test_properties_that_were_set_before_the_definition_count(context: BrowserContext) -> None:
    context.route(f"{ORIGIN}/**", give)
    page = context.new_page()
    page.goto(f"{ORIGIN}/harness/early.html")
    expect(page.get_by_role("button", name=re.compile("early written"))).to_be_visible()
    expect(page.locator("tool-call")).to_have_attribute("open", "")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1000), ("dark", 390)])
def test_axe_finds_nothing_wrong_in_any_state(browsing: Browsing, scheme: Any, width: int) -> None:
    if not AXE.exists():
        program_is_missing("axe-core is not installed: make .venv/ready-node installs it")
    # Axe is not a part of the page, and the policy would forbid it.
    context = browsing.context(
        color_scheme=scheme, bypass_csp=True, viewport={"width": width, "height": 2600}
    )
    page = harness(context)
    for call, *_ in STATES:
        Card(page, call.replace("{state", "{arguments: {path: 'a\\nb', n: 1}, state", 1))
        Card(page, call, open=False)
    Card.asking(page, request="{rule: 'outside'}")
    denying = Card.asking(page)
    denying.button("Deny").click()
    editing = Card.asking(page)
    editing.button("Edit").click()
    editing.field("to").fill("bob")
    editing.field("copies").fill("{")
    expect(editing.changes).to_contain_text("bob")
    page.locator("tool-call").get_by_role("button", name="Show result").first.click()
    screenshot(page, f"tool-call-{scheme}-{width}")
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    wrong = [
        (one["id"], [(node["target"], node.get("failureSummary")) for node in one["nodes"]])
        for one in found["violations"]
    ]
    assert not wrong
