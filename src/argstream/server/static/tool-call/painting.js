// Work for the screen, in slices: whatever comes, a frame spends no more than its budget on it, so
// that the page stays smooth, and what is left goes on in the next frame.
//
// A tab that is not seen has no frames. A timer steps in there, and as nothing has to be smooth, it
// may take longer.

const BUDGET = 8; // milliseconds of a frame, for all tasks together
const LEAST = 2; // and where the layout of what they have done takes longer than they
const HIDDEN_BUDGET = 40; // where no frames are drawn, and timers are rare
const PATIENCE = 250; // milliseconds after which a frame is not waited for any longer

/**
 * A piece of work. It gets a function that says whether there is time left, and returns whether it
 * is done; if it is not, it is called again in the next frame.
 * @typedef {(hasTime: () => boolean) => boolean} Task
 */

/** @type {Set<Task>} */
const tasks = new Set();
/** @type {Set<() => void>} */
const endings = new Set();
let budget = BUDGET;
let frame = 0;
let timer = 0;

/**
 * Do a task in the next frames. A task that waits already is not done twice.
 * @param {Task} task
 */
export function paint(task) {
  tasks.add(task);
  schedule();
}

/**
 * Do something once at the end of the next frame's work, for instance what depends on the layout,
 * which is then computed once for all.
 * @param {() => void} ending
 */
export function afterPainting(ending) {
  endings.add(ending);
  schedule();
}

function schedule() {
  if (timer) return;
  if (!document.hidden) frame = requestAnimationFrame(run);
  timer = setTimeout(run, document.hidden ? 0 : PATIENCE);
}

function run() {
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  frame = timer = 0;
  const begun = performance.now();
  const end = begun + (document.hidden ? HIDDEN_BUDGET : budget);
  const waiting = [...tasks];
  for (const [index, task] of waiting.entries()) {
    if (index > 0 && performance.now() > end) break; // they are the first in the next frame
    // Each gets its share of the time, at least a little; who needs less leaves more to the others.
    const left = Math.max(1, end - performance.now());
    const until = performance.now() + left / (waiting.length - index);
    tasks.delete(task); // before it runs, since it may ask for itself again
    if (!guarded(() => task(() => performance.now() < until), true)) tasks.add(task);
  }
  const last = [...endings];
  endings.clear();
  for (const ending of last) guarded(ending, undefined);
  // The endings have waited for the layout, so it is known what the frame costs.
  const isMuch = performance.now() - begun > 1.5 * BUDGET;
  budget = isMuch ? Math.max(LEAST, budget / 2) : Math.min(BUDGET, budget + 1);
  if (tasks.size || endings.size) schedule();
}

/**
 * Call somebody's work; that it fails is reported, and does not keep others from theirs.
 * @template Result
 * @param {() => Result} work
 * @param {Result} otherwise
 */
function guarded(work, otherwise) {
  try {
    return work();
  } catch (error) {
    reportError(error);
    return otherwise;
  }
}
