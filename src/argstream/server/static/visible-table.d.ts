// Types of visible-table.js, which the server makes from argstream/sanitise.py.
export const table: {
  opening: string;
  closing: string;
  /** What `visible` keeps although `ranges` has it. */
  kept: string;
  /** The escaped code points, first and last, in order. */
  ranges: [number, number][];
  /** What stands between the brackets instead of the number: {"U+001B": "ESC", …}. */
  names: Record<string, string>;
};
