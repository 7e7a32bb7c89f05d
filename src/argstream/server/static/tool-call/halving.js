// Where in an order something begins, by halving.

/**
 * Give the first index from which on something holds, or the length if it holds for none.
 * @template Item
 * @param {readonly Item[]} items for which it does not hold, and then those for which it does
 * @param {(item: Item) => boolean} holds
 */
export function firstIndex(items, holds) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const half = (low + high) >> 1;
    if (holds(/** @type {Item} */ (items[half]))) high = half;
    else low = half + 1;
  }
  return low;
}
