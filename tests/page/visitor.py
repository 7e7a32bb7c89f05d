"""A person at the page, who finds things by what they are called, as a screen reader does."""

import re

from playwright.sync_api import Locator, Page, expect

__all__ = ["Visitor"]

# Inside of custom elements too, which the browser's own innerText leaves out.
_READ = """(element) => {
  const texts = [];
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) texts.push(node.data);
    if (node.shadowRoot) walk(node.shadowRoot);
    for (const child of node.childNodes) walk(child);
  };
  walk(element);
  return texts.join(" ");
}"""

# A press of what decides does not count if it moved less than 0.3 s before.
_STAND_STILL = """(button) => new Promise((resolve) => {
  let last = "", since = 0;
  const look = (now) => {
    const { x, y, width, height } = button.getBoundingClientRect();
    const place = [x, y, width, height].join();
    if (place !== last) { last = place; since = now; }
    if (now - since > 400) resolve(); else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})"""


class Visitor:
    """One who looks at a page, types and clicks."""

    def __init__(self, page: Page, url: str = "") -> None:
        self.page = page
        self.requested: list[str] = []
        page.on("request", lambda request: self.requested.append(f"{request.method} {request.url}"))
        if url:
            page.goto(url)

    # What is there

    @property
    def message(self) -> Locator:
        """Where one types."""
        return self.page.get_by_role("textbox", name="Message")

    @property
    def conversation(self) -> Locator:
        """All that was said."""
        return self.page.get_by_role("region", name="Conversation")

    @property
    def calls(self) -> Locator:
        """All calls, those of sub-agents too."""
        return self.page.locator("tool-call")

    @property
    def runs(self) -> Locator:
        """The list of runs."""
        return self.page.get_by_role("navigation", name="Runs")

    def button(self, name: str) -> Locator:
        """Give a button by its exact name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def field(self, name: str) -> Locator:
        """Give a text field by its exact name."""
        return self.page.get_by_role("textbox", name=name, exact=True)

    def pill(self, name: str) -> Locator:
        """Give the button that stands for a call."""
        return self.calls.get_by_role("button", name=re.compile(rf"\b{re.escape(name)}\b"))

    def region(self, name: str) -> Locator:
        """Give a part of the page by its name."""
        return self.page.get_by_role("region", name=name)

    # What one does

    def say(self, prompt: str) -> None:
        """Type a prompt and send it."""
        self.message.fill(prompt)
        self.message.press("Enter")

    def decides(self, button: Locator) -> None:
        """Press a button that decides, once it has stood still for a while."""
        button.scroll_into_view_if_needed()
        button.evaluate(_STAND_STILL)
        button.click()

    def sees(self, *texts: str) -> None:
        """Wait until these are in the conversation."""
        for text in texts:
            expect(self.conversation).to_contain_text(text)

    def sees_states(self, *states: str) -> None:
        """Wait until the calls are in these states, in order."""
        for number, state in enumerate(states):
            expect(self.calls.nth(number)).to_have_attribute("state", state)
        expect(self.calls).to_have_count(len(states))

    def opens(self, pill: Locator) -> None:
        """Open a call, if it is closed."""
        if pill.get_attribute("aria-expanded") != "true":
            pill.click()
        expect(pill).to_have_attribute("aria-expanded", "true")

    def text(self, where: Locator | None = None) -> str:
        """Read all that stands somewhere, in the conversation if nothing is said, once."""
        read: str = (where or self.conversation).evaluate(_READ)
        return read
