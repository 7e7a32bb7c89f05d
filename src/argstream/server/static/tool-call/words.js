// Numbers, sizes, durations and paths in words. Nothing the model wrote comes through unless it is
// said so.

const numbers = new Intl.NumberFormat("en");

/**
 * A number with its noun: "1 line", "1,204 lines".
 * @param {number} count
 * @param {string} noun
 */
export function countOf(count, noun) {
  return `${numbers.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * How much there is to read: characters, and lines if there are several.
 * @param {{ characters: number, lines: number }} counts
 */
export function sizeWords({ characters, lines }) {
  const size = countOf(characters, "character");
  return lines > 1 ? `${size} · ${countOf(lines, "line")}` : size;
}

/**
 * How much there is to read, where not all of it is seen.
 * @param {{ characters: number, lines: number }} counts
 */
export function scrollWords({ characters, lines }) {
  const size = countOf(characters, "character");
  return `${lines > 1 ? `${countOf(lines, "line")}, ` : ""}${size}: scroll to read all`;
}

/**
 * A duration: tenths as long as they can be followed, then seconds, then minutes.
 * @param {number} seconds
 * @param {number} [digits] of the first ten seconds
 */
export function durationWords(seconds, digits = 1) {
  // A clock that was set back must not show a negative time.
  const known = Math.max(0, seconds);
  if (known < 9.95) return `${known.toFixed(digits)} s`;
  const whole = Math.round(known);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${twoDigits(whole % 60)} s`;
  return `${numbers.format(Math.floor(minutes / 60))} h ${twoDigits(minutes % 60)} min`;
}

/** @param {number} number */
function twoDigits(number) {
  return String(number).padStart(2, "0");
}

/**
 * How long there is left to decide.
 * @param {number} seconds
 */
export function leftWords(seconds) {
  if (seconds <= 0) return "the time to decide is over";
  return `${durationWords(Math.ceil(seconds), 0)} left to decide`;
}

/**
 * Where in the arguments something is: `files[2].path`. Keys that are no plain words are quoted,
 * so that "a.b" cannot pass for b in a; argstream/terminal/waterfall does the same. The keys are
 * the model's: show them by `visibleLine`.
 * @param {readonly (string | number)[]} path
 */
export function pathWords(path) {
  let words = "";
  for (const step of path) {
    if (typeof step === "number") words += `[${step}]`;
    else if (/^[\p{L}\p{N}_-]+$/u.test(step)) words += words ? `.${step}` : step;
    else words += `[${JSON.stringify(step)}]`;
  }
  return words;
}
