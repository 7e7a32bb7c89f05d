// What TypeScript knows of <tool-call> wherever tool-call.js is imported: the result of
// `createElement("tool-call")`, and the events. JSDoc cannot declare these.
import type { DecisionEvent, ToolCallElement } from "./tool-call.js";

export * from "./tool-call.js";

declare global {
  interface HTMLElementTagNameMap {
    "tool-call": ToolCallElement;
  }
}

interface ToolCallElementEventMap extends HTMLElementEventMap {
  decision: DecisionEvent;
}

declare module "./tool-call.js" {
  interface ToolCallElement {
    addEventListener<Kind extends keyof ToolCallElementEventMap>(
      type: Kind,
      listener: (this: ToolCallElement, event: ToolCallElementEventMap[Kind]) => unknown,
      options?: boolean | AddEventListenerOptions,
    ): void;
    addEventListener(
      type: string,
      listener: EventListenerOrEventListenerObject,
      options?: boolean | AddEventListenerOptions,
    ): void;
    removeEventListener<Kind extends keyof ToolCallElementEventMap>(
      type: Kind,
      listener: (this: ToolCallElement, event: ToolCallElementEventMap[Kind]) => unknown,
      options?: boolean | EventListenerOptions,
    ): void;
    removeEventListener(
      type: string,
      listener: EventListenerOrEventListenerObject,
      options?: boolean | EventListenerOptions,
    ): void;
  }
}
