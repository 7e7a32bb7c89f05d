// What TypeScript knows of <tool-call> wherever tool-call.js is imported: what `createElement`
// gives for its name, and which events it has. JavaScript has no words for that.
import type { DecisionEvent, ToolCallElement } from "./tool-call.js";

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
