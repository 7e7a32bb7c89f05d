// The question whether a call may run, in the strip of its card: the reason, how long there is
// left, and approve, edit, deny. What is decided on is the request as it was shown: its digest goes
// with the decision, whatever the call has become meanwhile. It can be approved when all of it is
// shown; to deny it nobody has to wait. Who has the focus keeps it, or it goes to where it came
// from: never to nowhere.

import { button } from "./button.js";
import { secondsLeft } from "./clock.js";
import { DecisiveButton } from "./decisive.js";
import { inOrder } from "./directions.js";
import { make, setText } from "./dom.js";
import { Editor } from "./editor.js";
import { afterPainting, paint } from "./painting.js";
import { visible, visibleLine } from "./visible.js";
import { leftWords } from "./words.js";

/** @import { Call, Decision } from "../argstream.js" */

const SAID = 4000; // milliseconds for which it is said that a press did not count

/**
 * @typedef {object} Asker What the element does for its question.
 * @property {(decision: Decision) => Promise<unknown> | null} decide sends it; null if nobody does
 * @property {(editor: Editor | null) => void} place puts the editor where the arguments are
 * @property {() => void} settled says that a decision was taken or refused
 * @property {() => number} progress how much of what is asked about is shown, from 0 to 1
 * @property {() => string} size says how much that is, if it is more than is seen at once
 */

/** The strip of a call that asks. */
export class Approval {
  #call;
  #request;
  #asker;
  #said = make("div", { class: "said" });
  #left = make("span", { class: "left" });
  #size = make("span", { class: "size-note", id: "size" });
  #moved = make("span", { class: "moved" });
  #buttons = make("div", { class: "buttons" });
  #alert = make("div", { class: "alert", role: "alert" });
  #always;
  /** @type {DecisiveButton | null} */
  #decisive = null;
  /** @type {Editor | null} */
  #editor = null;
  /** @type {"no" | "sending" | "sent"} */
  #busy = "no";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {Call} call
   * @param {Asker} asker
   */
  constructor(call, asker) {
    if (!call.request) throw new TypeError("nobody asks about this call");
    this.#call = call;
    this.#request = call.request;
    this.#asker = asker;
    this.#always = alwaysMenu(call.request.rule ?? null);
    this.#always.addEventListener("change", () => this.#decisive?.restart());
    this.element = make(
      "div", { class: "strip", role: "group", "aria-label": "Approval" },
      this.#said, this.#buttons, this.#alert,
    );
    this.#ask();
    this.refresh();
  }

  /** The request that is shown here. */
  get request() {
    return this.#request;
  }

  /** Whether a decision is on its way, and what became of it not known. */
  get isSending() {
    return this.#busy === "sending";
  }

  /** The editor that is open, if what is typed there was not sent. */
  get unsent() {
    return this.#busy === "sent" ? null : this.#editor;
  }

  /** Show how long there is left, and how much of what is asked about is shown. */
  refresh() {
    const seconds = secondsLeft(this.#call);
    setText(this.#left, seconds === null ? "" : ` · ${leftWords(seconds)}`);
    if (this.#isShown()) afterPainting(this.#measure);
    this.#decisive?.watch();
  }

  /** Ask how much there is, which depends on the layout, and say it in the next frame. */
  #measure = () => {
    if (!this.element.isConnected) return;
    const words = this.#asker.size();
    paint(() => {
      if (this.#isShown()) setText(this.#size, words && ` · ${words}`);
      return true;
    });
  };

  /** Whether all is shown; how much, is said until then. */
  #isShown() {
    const progress = this.#asker.progress();
    if (progress === 1) return true;
    const percent = Math.min(99, Math.floor(100 * progress));
    setText(this.#size, ` · still being shown: ${percent} %`);
    return false;
  }

  /**
   * Make the button that decides.
   * @param {string} text
   * @param {string} looks
   * @param {() => void} press
   * @param {() => boolean} mayPress
   */
  #decide(text, looks, press, mayPress) {
    this.#decisive = new DecisiveButton(text, looks, {
      press,
      mayPress: () => mayPress() && this.#busy === "no",
      refuse: () => this.#refuse(),
    });
    return this.#decisive;
  }

  /** Say that a press did not count. */
  #refuse() {
    clearTimeout(this.#timer);
    const words = make("b", { role: "alert", text: "It moved just now: press again." });
    this.#moved.replaceChildren(" ", words);
    this.#timer = setTimeout(() => this.#moved.replaceChildren(), SAID);
  }

  /** The three buttons. */
  #ask() {
    const reason = visible(this.#request.reason);
    this.#said.replaceChildren(
      make("b", { text: "asks" }),
      ...(reason ? [": ", ...inOrder(reason)] : [" whether it may run"]),
      this.#left, this.#size, this.#moved,
    );
    const approve = this.#decide(
      "Approve", "main", () => this.#send({ decision: "approve" }), () => this.#isShown(),
    );
    approve.element.setAttribute("aria-describedby", "size");
    const edit = button("Edit", "", () => this.#edit());
    const deny = button("Deny", "no", () => this.#deny());
    this.#buttons.replaceChildren(approve.element, this.#always, edit, deny);
    return { edit, deny };
  }

  /** The second step of a denial: why. */
  #deny() {
    if (this.#busy !== "no") return;
    const reason = make("input", {
      type: "text", id: "reason", autocomplete: "off", placeholder: "why not? the model is told",
    });
    const deny = () => this.#send({ decision: "deny", reason: reason.value });
    const cancel = () => this.#ask().deny.focus();
    reason.addEventListener("keydown", (event) => {
      if (event.isComposing || event.repeat) return;
      if (event.key === "Enter") deny();
      else if (event.key === "Escape" && this.#busy === "no") cancel();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.#buttons.replaceChildren(
      this.#decide("Deny", "no", deny, () => true).element,
      button("Cancel", "", () => this.#busy === "no" && cancel()),
    );
    this.#said.replaceChildren(
      make("label", { for: "reason", text: "Reason" }), reason, this.#moved,
    );
    this.#tell("");
    reason.focus();
  }

  /** The editor, and what can be done with what is typed there. */
  #edit() {
    if (this.#busy !== "no") return;
    let canApprove = false;
    const approve = this.#decide("Approve changes", "main", () => {
      const edited = editor.read();
      if (!edited) editor.focusProblem();
      else this.#send({ decision: "approve", arguments: edited });
    }, () => canApprove && this.#isShown());
    const state = make("span", { id: "editing" });
    approve.element.setAttribute("aria-describedby", "editing size");
    const editor = new Editor(this.#request.arguments, (words, isReady) => {
      state.textContent = words;
      canApprove = isReady;
      approve.restart(); // what it would approve is new
    });
    const cancel = () => {
      if (this.#busy !== "no") return;
      this.#editor = null;
      this.#asker.place(null);
      this.#tell("");
      this.#ask().edit.focus();
    };
    editor.element.addEventListener("keydown", (event) => {
      // Escape must not throw away what was typed.
      if (event.key !== "Escape" || event.isComposing || editor.isChanged) return;
      event.stopPropagation();
      cancel();
    });
    this.#editor = editor;
    this.#said.replaceChildren(state, this.#left, this.#size, this.#moved);
    this.#buttons.replaceChildren(approve.element, this.#always, button("Cancel", "", cancel));
    this.#tell("");
    this.#asker.place(editor);
    editor.focus();
  }

  /**
   * Send a decision. Everything stays as it is until it is known what became of it.
   * @param {Omit<Decision, "digest">} decision
   */
  async #send(decision) {
    if (this.#busy !== "no") return;
    const always = this.#always.value;
    const whole = /** @type {Decision} */ ({ ...decision, digest: this.#request.digest });
    if (decision.decision === "approve" && (always === "conversation" || always === "rule")) {
      whole.always = always;
    }
    if (!whole.reason) delete whole.reason;
    this.#moved.replaceChildren();
    const answer = this.#asker.decide(whole);
    if (!answer) {
      this.#tell("Nothing on this page takes decisions.");
      return;
    }
    this.#tell("");
    this.#become("sending");
    try {
      await answer;
      this.#become("sent");
    } catch (error) {
      this.#become("no");
      this.#tell(error instanceof Error ? error.message : String(error));
    }
    this.#asker.settled();
  }

  /** @param {"no" | "sending" | "sent"} busy */
  #become(busy) {
    this.#busy = busy;
    this.element.ariaBusy = busy === "no" ? null : "true";
    // Not `disabled`: the button that was pressed would lose the focus to nowhere.
    for (const one of this.#buttons.querySelectorAll("button")) {
      one.ariaDisabled = busy === "no" ? null : "true";
    }
    this.#decisive?.restart();
    for (const one of this.element.querySelectorAll("input")) one.readOnly = busy !== "no";
    this.#always.disabled = busy !== "no";
    this.#editor?.hold(busy !== "no");
  }

  /** @param {string} problem */
  #tell(problem) {
    this.#alert.textContent = visible(problem);
  }
}

/**
 * For what else an approval holds; for nothing, unless somebody says so.
 * @param {string | null} rule
 */
function alwaysMenu(rule) {
  const menu = make(
    "select", { "aria-label": "Approval holds for" },
    make("option", { value: "", text: "only this call" }),
    make("option", { value: "conversation", text: "this tool, in this conversation" }),
  );
  if (rule !== null) {
    const option = make("option", { value: "rule" });
    option.append(`whatever this rule asks about: ${visibleLine(rule)}`);
    menu.append(option);
  }
  return menu;
}
