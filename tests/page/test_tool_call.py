"""``<tool-call>`` by itself, with calls made by hand: each state, and decisions."""

import json
import re
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.conftest import Browsing
from tests.page.looking import accessibility_problems, file_url, screenshot
from tests.page.visitor import STAND_STILL, expect_enabled

MAIL = {"to": "ada@example.org", "body": "Today at one?\nAt the pond.", "copies": 2}


@pytest.fixture
def page(browsing: Browsing) -> Page:
    return open_harness(browsing.shared_page())


def open_harness(page: Page) -> Page:
    page.goto(file_url("harness/tool-call.html"))
    page.wait_for_selector("html[data-ready]", state="attached")
    return page


class Card:
    """A call on the page."""

    def __init__(self, page: Page, call: str, **options: Any) -> None:
        """Show a call. ``call`` has the fields that differ from the default, in JavaScript."""
        self.page = page
        self.at: int = page.evaluate(
            f"""(options) => {{
              const element = show({{{call}}}, options);
              return [...document.querySelectorAll('tool-call')].indexOf(element);
            }}""",
            options,
        )
        self.element: Locator = page.locator("tool-call").nth(self.at)
        self.head = self.element.locator(".head")
        self.strip = self.element.locator(".strip")
        self.changes = self.element.locator(".changes")
        self.alert = self.element.get_by_role("alert")
        expect(self.element).to_have_attribute("state", re.compile("."))

    @classmethod
    def asking(cls, page: Page, given: object = MAIL, request: str = "", **options: Any) -> "Card":
        call = f"state: 'pending', arguments: {json.dumps(given)}, request: {{{request}}}"
        return cls(page, call, **options)

    def button(self, name: str) -> Locator:
        return self.element.get_by_role("button", name=name, exact=True)

    def press(self, name: str) -> None:
        """Click a button as soon as it is enabled and stands still."""
        self.button(name).evaluate(STAND_STILL)
        self.button(name).click()

    def field(self, name: str) -> Locator:
        return self.element.get_by_role("textbox", name=name, exact=True)

    def becomes(self, changes: str) -> None:
        """Change fields of the call, in JavaScript."""
        self.page.evaluate(
            f"(at) => change(document.querySelectorAll('tool-call')[at], {{{changes}}})", self.at
        )


def decisions(page: Page) -> Any:
    """Return the decisions so far, each as ``[call ID, decision]``."""
    return json.loads(
        page.evaluate(
            """JSON.stringify(decided.flatMap((one) => Object.entries(one)),
                 (_, value) => typeof value === 'bigint' ? `big ${value}` : value)"""
        )
    )


def answer(page: Page, script: str) -> None:
    """Set the answer to the next decision: a string refuses it, a promise is the answer."""
    page.evaluate(f"() => {{ answers.push({script}); }}")


HELD_ANSWER = "new Promise((_, reject) => { window.refuse = reject; })"
DENIED = "state: 'denied', decision: {decision: 'denied', reason: 'no'}"


# States

AT_PATH = "error: {message: 'it ends', path: ['a', 0, 'b c']}"
MISSING = "error: {message: 'path is missing', path: ['path']}"
STATES = [
    ("state: 'writing', verdict: null", "being written", ""),
    ("state: 'written'", "written", "Whole, and not begun."),
    ("state: 'approved', decision: {decision: 'edited'}", "approved", "approved with changes"),
    ("state: 'running', output: 'one\\ntwo\\n'", "running", "running… two"),
    ("state: 'completed', result: '\\n  42 files\\nmore'", "done", "42 files"),
    ("state: 'completed', result: {id: 12345678901234567890n}", "done", "12345678901234567890"),
    ("state: 'completed'", "done", "done"),
    ("state: 'failed', result: 'TimeoutError: 30 s'", "failed", "failed: TimeoutError: 30 s"),
    (DENIED, "denied", "denied: no"),
    (DENIED.replace("'denied', reason", "'expired', reason"), "expired", "expired: no"),
    (DENIED.replace("'denied', reason", "'withdrawn', reason"), "withdrawn", "no"),
    (
        f"state: 'invalid', verdict: 'truncated', {AT_PATH}",
        "cut off",
        'cut off: it ends (at a[0]["b c"])',
    ),
    (f"state: 'invalid', verdict: 'rejected', {MISSING}", "rejected", "rejected: path is missing"),
    ("state: 'lost'", "lost", "The turn was cut off and began again."),
]


def test_each_state_is_shown_in_words(page: Page) -> None:
    for call, state, text in STATES:
        card = Card(page, call)
        expect(card.head).to_have_accessible_name(re.compile(rf"^write_file {state}"))
        expect(card.strip).to_contain_text(text)
        expect(card.strip).to_be_visible(visible=text != "")


def test_counter_grows_and_is_not_part_of_the_name(page: Page) -> None:
    writing = "state: 'writing', verdict: null, arguments: {a: 'x'}, startedAt: 1"
    card = Card(page, writing, open=False)
    expect(card.head).to_contain_text("2 characters")
    expect(card.head).to_contain_text(re.compile(r"0\.[3-9] s"))
    card.becomes("arguments: {a: 'one\\ntwo'}")
    expect(card.head).to_contain_text("8 characters · 2 lines")
    expect(card.head).to_have_accessible_name("write_file being written")
    card.becomes("state: 'completed', executedAt: [100], endedAt: 161.2")
    expect(card.head).to_have_accessible_name("write_file done 1 min 01 s")
    # A call that started before the page saw it has run for at least that long.
    expect(Card(page, "state: 'running'", open=False).head).to_contain_text("> 0.")


def test_card_opens_and_closes_by_keyboard(page: Page) -> None:
    card = Card(page, "state: 'written', arguments: {path: 'notes.txt'}", open=False)
    expect(card.element.get_by_text("notes.txt")).to_be_hidden()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(card.element.get_by_text("notes.txt")).to_be_visible()
    expect(card.head).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Space")
    expect(card.element).not_to_have_attribute("open", "")


def test_results_and_output_open_on_request(page: Page) -> None:
    card = Card(page, "state: 'running', output: 'reading\\n'")
    card.button("Show output").click()
    output = card.element.get_by_label("Output", exact=True)
    expect(output).to_contain_text("reading")
    card.becomes("output: 'reading\\nwriting\\n'")
    expect(output).to_contain_text("writing")
    result = "result: {sent: [1, 2], id: 12345678901234567890n}"
    card.becomes(f"state: 'completed', outcome: 'completed', {result}")
    card.button("Show result").click()
    shown = card.element.get_by_label("Result", exact=True)
    expect(shown).to_contain_text('"id": 12345678901234567890')
    expect(output).to_have_count(0)
    card.button("Hide result").click()
    expect(shown).to_have_count(0)
    failed = Card(page, "state: 'failed', result: 'Error: one\\nTraceback two'")
    failed.button("Show error").click()
    expect(failed.element.get_by_label("Result", exact=True)).to_contain_text("Traceback two")


def test_edit_is_shown_as_changes_to_the_arguments_of_the_model(page: Page) -> None:
    edited = "{decision: 'edited', edited_arguments: {to: 'bob', body: 'x', copy: true}}"
    given = "arguments: {to: 'ada', body: 'x'}, request: {}"
    card = Card(page, f"state: 'completed', result: 'sent', {given}, decision: {edited}")
    card.button("Show changes").click()
    expect(card.changes.locator(".removed")).to_have_text(re.compile("ada"))
    expect(card.changes.locator(".added")).to_have_text([re.compile("bob"), re.compile("true")])
    expect(card.changes).to_contain_text("copy · new")
    expect(card.changes).not_to_contain_text("body")


def test_content_of_a_sub_agent_is_inside_and_its_calls_are_counted(page: Page) -> None:
    card = Card(page, "state: 'running', name: 'ask_researcher'")
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
    head = card.head.first
    expect(head).to_contain_text("2 calls")
    expect(page.get_by_text("I look first.")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("read_file running"))).to_be_visible()
    page.evaluate(
        "change(document.querySelectorAll('tool-call')[3], {state: 'pending', request: null})"
    )
    expect(head).to_contain_text("2 calls, 1 asking")
    head.click()
    expect(page.get_by_role("button", name=re.compile("list_files"))).to_have_count(0)


# Decisions


def test_approval_is_for_the_request_that_is_shown(page: Page) -> None:
    card = Card.asking(page, request="reason: 'it costs money', digest: 'd1'")
    expect(card.strip).to_contain_text("asks: it costs money")
    for text in ("ada@example.org", "Today at one?", "At the pond."):
        expect(card.element.get_by_text(text)).to_be_visible()
    card.press("Approve")
    assert decisions(page) == [["call-1", {"decision": "approve", "digest": "d1"}]]
    other = Card.asking(page, request="arguments: {to: 'eve@example.org'}")
    expect(other.element.get_by_label("What is asked about")).to_contain_text("eve@example.org")


def test_approval_can_hold_for_a_rule_or_the_conversation(page: Page) -> None:
    for always in ("conversation", "rule"):
        card = Card.asking(page, request="digest: 'd', rule: 'outside'")
        menu = card.element.get_by_role("combobox", name="Approval holds for")
        expect(menu).to_have_value("")
        menu.select_option(always)
        card.press("Approve")
    assert [decision["always"] for _, decision in decisions(page)] == ["conversation", "rule"]
    expect(Card.asking(page).element.get_by_role("option")).to_have_count(2)


def test_card_is_busy_until_the_decision_is_answered(page: Page) -> None:
    card = Card.asking(page)
    answer(page, HELD_ANSWER)
    card.press("Approve")
    expect(card.strip).to_have_attribute("aria-busy", "true")
    for name in ("Approve", "Edit", "Deny"):
        expect(card.button(name)).to_be_disabled()
    page.keyboard.press("Enter")  # the focus is still on the button
    page.evaluate("refuse(new Error('it was decided\\u202e'))")
    expect(card.alert).to_have_text("it was decided⟦RLO⟧")
    expect(card.button("Approve")).to_be_focused()
    card.press("Approve")
    expect(card.alert).to_have_text("")
    assert len(decisions(page)) == 2
    card.becomes("state: 'running', decision: {decision: 'approved', reason: ''}")
    expect(card.strip).to_contain_text("running")
    expect(card.head).to_be_focused()


def test_approval_request_does_not_take_the_focus(page: Page) -> None:
    page.evaluate("document.querySelector('main').append(document.createElement('textarea'))")
    page.locator("main > textarea").focus()
    card = Card(page, "state: 'writing', verdict: null")
    card.becomes("state: 'pending', request: {reason: '', digest: 'd', arguments: {}}")
    expect(card.button("Approve")).to_be_visible()
    expect(page.locator("main > textarea")).to_be_focused()


def test_denial_offers_a_reason_and_needs_none(page: Page) -> None:
    card = Card.asking(page, request="digest: 'd'")
    card.button("Deny").click()
    reason = card.field("Reason")
    expect(reason).to_be_focused()
    reason.press("Escape")
    expect(card.button("Deny")).to_be_focused()
    expect(reason).to_have_count(0)
    card.button("Deny").click()
    reason.fill("not on a Friday")
    reason.press("Enter")
    card.becomes(DENIED)
    expect(card.head).to_be_focused()

    other = Card.asking(page, request="digest: 'e'")
    other.element.get_by_role("combobox").select_option("conversation")  # only for an approval
    other.button("Deny").click()
    other.button("Cancel").click()
    expect(other.button("Deny")).to_be_focused()
    other.button("Deny").click()
    other.button("Deny").click()
    assert decisions(page) == [
        ["call-1", {"decision": "deny", "digest": "d", "reason": "not on a Friday"}],
        ["call-2", {"decision": "deny", "digest": "e"}],
    ]


def test_time_left_to_decide_is_shown(page: Page) -> None:
    soon = Card.asking(page, request="expires_at: Date.now() / 1000 + 95")
    expect(soon.strip).to_contain_text(re.compile(r"1 min [123]\d s left to decide"))
    over = Card.asking(page, request="expires_at: 5")
    expect(over.strip).to_contain_text("the time to decide is over")
    # The server's clock is years behind: only the difference of its times counts.
    skewed = Card(page, "state: 'pending', requestedAt: 100, request: {expires_at: 130}")
    expect(skewed.strip).to_contain_text(re.compile(r"(30|[12]\d) s left"))


def test_decision_is_impossible_in_a_replay_or_without_a_listener(page: Page) -> None:
    replayed = Card.asking(page, decidable=False)
    expect(replayed.strip).to_contain_text("asks: it writes outside of the folder")
    expect(replayed.button("Approve")).to_have_count(0)
    page.evaluate(
        """() => {
          const old = document.querySelector('tool-call');
          const fresh = document.createElement('tool-call');
          fresh.call = old.call; fresh.open = true;
          old.replaceWith(fresh);
        }"""
    )
    replayed.press("Approve")
    expect(replayed.alert).to_have_text("Nothing on this page takes decisions.")


# Unintended decisions


NOT_STILL = "It moved just now: press again."


def centre(locator: Locator) -> tuple[float, float]:
    box = locator.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def press_at(page: Page, locator: Locator, count: int = 1) -> None:
    """Click at once, whatever is there."""
    page.mouse.click(*centre(locator), click_count=count)


def test_double_click_on_cancel_approves_nothing(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})  # Approve is where Cancel was
    card = Card.asking(page)
    for first in ("Deny", "Edit"):
        card.button(first).click()
        box = card.button("Cancel").bounding_box()
        assert box is not None
        for share in (0.1, 0.5, 0.9):
            page.mouse.dblclick(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
            assert decisions(page) == []
            if card.button("Cancel").count():
                card.button("Cancel").click()
            card.button(first).click()
        card.button("Cancel").click()
    page.mouse.dblclick(*centre(card.button("Deny")))
    assert decisions(page) == []


def test_approve_is_enabled_only_after_a_moment(page: Page) -> None:
    early = page.evaluate(
        """async () => {
          const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
          const begun = performance.now();
          const element = show({ state: 'pending', arguments: { a: 1 }, request: {} });
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
    expect_enabled(card.button("Approve"))
    # A page that becomes visible starts the wait again.
    become_visible = "document.dispatchEvent(new Event('visibilitychange'))"
    disabled = f"button => {{ {become_visible}; return button.ariaDisabled; }}"
    assert card.element.locator(".main").evaluate(disabled) == "true"
    expect_enabled(card.button("Approve"))
    card.head.click()
    expect(card.element.locator(".main")).to_have_attribute("aria-disabled", "true")
    card.head.click()
    card.button("Approve").focus()
    expect_enabled(card.button("Approve"))
    page.keyboard.press("Enter")
    assert [call for call, _ in decisions(page)] == ["call-2"]


def test_click_on_a_button_that_just_moved_is_ignored(page: Page) -> None:
    card = Card.asking(page)
    approve = card.button("Approve")
    expect_enabled(approve)
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
    expect(card.alert.filter(has_text="moved")).to_have_text(NOT_STILL)
    assert decisions(page) == []
    # The keyboard is not affected.
    approve.focus()
    page.keyboard.press("Enter")
    assert len(decisions(page)) == 1
    denied = Card.asking(page)
    denied.button("Deny").evaluate("button => button.click()")
    expect_enabled(denied.button("Deny"))
    press_at(page, denied.button("Deny"))
    expect(denied.strip).to_contain_text(NOT_STILL)
    denied.field("Reason").press("Enter")
    assert len(decisions(page)) == 2
    page.evaluate("clearInterval(moving)")
    other = Card.asking(page)
    expect_enabled(other.button("Approve"))
    page.wait_for_timeout(600)
    press_at(page, other.button("Approve"), count=2)  # of which one counts
    expect(other.strip).to_have_attribute("aria-busy", "true")
    assert len(decisions(page)) == 3


def test_approve_is_disabled_until_all_arguments_are_shown(page: Page) -> None:
    result = page.evaluate(
        """async () => {
          const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
          const items = Array.from({ length: 30_000 }, (_, at) => at);
          const given = { items, target: '/etc/passwd' };
          const element = show({ state: 'pending', arguments: given, request: {} });
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
    assert result["decided"] == 0
    assert len(result["early"]) > 5
    assert all(one == ["true", None] for one in result["early"])
    assert re.search(r"still being shown: \d+ %", result["words"][-1])
    card = page.locator("tool-call")
    approve = card.get_by_role("button", name="Approve", exact=True)
    expect_enabled(approve)
    expect(approve).to_have_accessible_description(
        re.compile("138,912 characters: scroll to read all")
    )
    approve.click()
    assert len(decisions(page)) == 1


def test_pending_arguments_are_scrolled_to_their_start(page: Page) -> None:
    lines = "\\n".join(f"line {number}" for number in range(90))
    tops = """element => ['.arguments', '.code'].map(
      (name) => element.shadowRoot.querySelector(name).scrollTop)"""
    given = "{path: 'a.txt', content: '%s', more: {}}"
    writing = f"state: 'writing', verdict: null, arguments: {given % ''}"
    request = f"request: {{reason: 'why', digest: 'd', arguments: {given % lines}}}"
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
        card.becomes(f"state: 'pending', verdict: 'complete', {request}")
        expect_enabled(card.button("Approve"))
        after = card.element.evaluate(tops)
        assert after == (before if is_read else [0, 0])
        expect(card.strip).to_contain_text(re.compile(r"90 lines, \d+ characters: scroll"))
        card.element.evaluate("element => element.remove()")
    short = Card.asking(page)
    expect_enabled(short.button("Approve"))
    expect(short.strip).not_to_contain_text("scroll")


# The editor


def test_edit_keeps_all_other_arguments_exactly(page: Page) -> None:
    card = Card(
        page,
        """state: 'pending', request: {digest: 'd'}, arguments: JSON.parse(
          '{"to": "ada\\u202e\\\\r\\\\n", "id": 0, ' +
          '"__proto__": {"a": [1.5, null]}, "note": "\\u27e6ESC\\u27e7"}',
          (key, value) => key === 'id' ? 12345678901234567890n : value)""",
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
    card.press("Approve changes")
    [(_, decision)] = decisions(page)
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


def test_invalid_json_is_reported_at_its_field(page: Page) -> None:
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
    card.press("Approve changes")
    [(_, decision)] = decisions(page)
    assert decision["arguments"] == {"to": "eve", "when": "now"}


def test_call_without_fields_is_edited_as_json(page: Page) -> None:
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
    card.press("Approve changes")
    assert [decision["arguments"] for _, decision in decisions(page)] == [
        {"__proto__": 1, "constructor": 2}
    ]
    assert card.element.evaluate(unsent) is False
    many = Card.asking(page, {f"key {number}": number for number in range(101)})
    many.button("Edit").click()
    expect(many.field("Arguments as JSON")).to_be_focused()
    many.field("Arguments as JSON").fill("{}")
    expect(many.changes).to_contain_text("and 1 argument more")


def test_cancelled_edit_changes_nothing(page: Page) -> None:
    card = Card.asking(page)
    card.button("Edit").click()
    card.field("to").fill("bob")
    card.field("to").press("Escape")  # keeps the text
    expect(card.field("to")).to_have_value("bob")
    expect(card.changes).to_contain_text("bob")
    card.button("Cancel").click()
    expect(card.button("Edit")).to_be_focused()
    expect(card.element.get_by_text("ada@example.org")).to_be_visible()
    card.button("Edit").click()
    card.field("to").press("Escape")
    expect(card.button("Edit")).to_be_focused()
    assert decisions(page) == []


def test_refused_edit_is_kept(page: Page) -> None:
    card = Card.asking(page)
    answer(page, "'to: must be an address'")
    card.button("Edit").click()
    card.field("to").fill("x")
    card.press("Approve changes")
    expect(card.alert).to_have_text("to: must be an address")
    expect(card.field("to")).to_have_value("x")
    card.field("to").fill("bob@example.org")
    card.press("Approve changes")
    card.becomes("state: 'running', decision: {decision: 'edited', reason: ''}")
    expect(card.field("to")).to_have_count(0)
    expect(card.head).to_be_focused()
    assert [one["arguments"]["to"] for _, one in decisions(page)] == ["x", "bob@example.org"]


@pytest.mark.parametrize("is_sent", [False, True])
def test_edit_can_be_read_after_a_decision_elsewhere(page: Page, is_sent: bool) -> None:
    card = Card.asking(page)
    answer(page, HELD_ANSWER)
    card.button("Edit").click()
    card.field("body").fill("A long letter")
    if is_sent:
        card.press("Approve changes")
    card.becomes(DENIED)
    expect(card.element).to_have_attribute("state", "denied")
    if is_sent:
        page.evaluate("refuse(new Error('it was decided already'))")
    expect(card.element).to_contain_text("Decided elsewhere: denied. What you typed was not sent.")
    expect(card.field("body")).to_have_value("A long letter")
    expect(card.field("body")).not_to_be_editable()
    expect(card.button("Approve changes")).to_have_count(0)
    card.button("Dismiss").click()
    expect(card.field("body")).to_have_count(0)
    expect(card.head).to_be_focused()


def test_edit_of_a_large_text_shows_only_changes_and_sends_all(page: Page) -> None:
    lines = "\n".join(f"line {number} of a large text" for number in range(8000))
    card = Card.asking(page, {"text": lines})
    card.button("Edit").click()
    card.field("text").evaluate("field => field.setSelectionRange(100, 100)")
    card.field("text").press_sequentially("hello", delay=30)
    expect(card.changes.locator(".added")).to_contain_text("hello")
    expect(card.changes).to_contain_text("equal lines")
    card.press("Approve changes")
    assert len(decisions(page)[0][1]["arguments"]["text"]) == len(lines) + 5


# The element


def test_removed_element_stands_still_and_continues_when_it_is_back(page: Page) -> None:
    gone, still, back = page.evaluate(
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
          return [gone, still, text()];
        }"""
    )
    assert gone == still != back


def test_properties_set_before_the_definition_are_used(page: Page) -> None:
    page.goto(file_url("harness/early.html"))
    expect(page.get_by_role("button", name=re.compile("early written"))).to_be_visible()
    expect(page.locator("tool-call")).to_have_attribute("open", "")


def test_no_state_has_accessibility_problems(browsing: Browsing) -> None:
    page = open_harness(browsing.page(bypass_csp=True))
    for call, *_ in STATES:
        Card(page, f"arguments: {{path: 'a\\nb', n: 1}}, {call}")
        Card(page, call, open=False)
    Card.asking(page, request="rule: 'outside'")
    Card.asking(page).button("Deny").click()
    editing = Card.asking(page)
    editing.button("Edit").click()
    editing.field("to").fill("bob")
    editing.field("copies").fill("{")
    expect(editing.changes).to_contain_text("bob")
    page.locator("tool-call").get_by_role("button", name="Show result").first.click()
    looks: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 1000), ("dark", 390))
    for scheme, width in looks:
        page.set_viewport_size({"width": width, "height": 2600})
        page.emulate_media(color_scheme=scheme)
        screenshot(page, f"tool-call-{scheme}-{width}")
        assert not accessibility_problems(page), scheme
