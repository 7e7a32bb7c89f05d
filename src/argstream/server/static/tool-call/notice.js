// What has to be shown besides the arguments of a call that asks; nothing, in most cases.
//
// What is asked about must be what is seen. The arguments above a question are those that the model
// wrote; should the request be about others, these are shown, whole, and it is said. To find that
// out takes time if there are many, so it is done in slices, as all painting is.

import { toJson } from "../argstream.js";
import { CodeView } from "./code.js";
import { make } from "./dom.js";
import { paint } from "./painting.js";

/** @import { Call } from "../argstream.js" */
/** @typedef {NonNullable<Call["request"]>} Request */

const STRIDE = 64; // values that are compared between two looks at the clock

/** The place for it. */
export class Notice {
  #request;
  #onPainted;
  /** @type {[one: unknown, other: unknown][]} */
  #pairs;
  /** @type {CodeView | null} */
  #view = null;
  #isCompared = false;

  /**
   * @param {Call} call
   * @param {Request} request
   * @param {() => void} onPainted called when all that has to be shown is
   */
  constructor(call, request, onPainted) {
    this.#request = request;
    this.#onPainted = onPainted;
    this.#pairs = [[request.arguments, call.arguments]];
    this.element = make("div", { class: "panel" });
    paint(this.#compare);
  }

  /** Whether all that has to be shown is. */
  get isPainted() {
    return this.#isCompared && (this.#view?.isPainted ?? true);
  }

  /** @param {() => boolean} hasTime */
  #compare = (hasTime) => {
    do {
      for (let count = 0; count < STRIDE; count += 1) {
        const pair = this.#pairs.pop();
        if (pair === undefined) return this.#over(true);
        if (!this.#isAlike(...pair)) return this.#over(false);
      }
    } while (hasTime());
    return false;
  };

  /**
   * Say whether two values may be the same; what is in them is compared later.
   * @param {unknown} one
   * @param {unknown} other
   */
  #isAlike(one, other) {
    if (typeof one !== "object" || typeof other !== "object" || !one || !other) {
      return Object.is(one, other);
    }
    const [entries, others] = [Object.entries(one), Object.entries(other)];
    if (Array.isArray(one) !== Array.isArray(other) || entries.length !== others.length) {
      return false;
    }
    return entries.every(([key, value], at) => {
      const [name, item] = others[at] ?? [];
      this.#pairs.push([value, item]);
      return name === key;
    });
  }

  /** @param {boolean} isSame */
  #over(isSame) {
    this.#pairs = [];
    this.#isCompared = true;
    if (!isSame) {
      this.#view = new CodeView({
        label: "What is asked about", language: "json",
        onPainting: ({ isPainted }) => isPainted && this.#onPainted(),
      });
      this.#view.show(toJson(this.#request.arguments, 2));
      this.element.append(
        make("p", { class: "notice", text: "What is asked about, exactly:" }), this.#view.element,
      );
    }
    if (this.isPainted) this.#onPainted();
    return true;
  }
}
