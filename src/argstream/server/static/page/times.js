/**
 * Times in words: when something was, by the calendar or since a run began, and how long it took.
 *
 * How long calls take is in ../tool-call/words.js, for who follows it; here it is for who compares.
 */

const CLOCK_FROM = 120; // seconds from which minutes are easier to read
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const dayAndTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/**
 * Say how long ago something was.
 *
 * @param {number} then in seconds since 1970
 * @param {number} now
 */
export function ago(then, now = Date.now() / 1000) {
  const seconds = now - then;
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`;
  return day.format(then * 1000);
}

/** @param {number} then in seconds since 1970 */
export function exactly(then) {
  return dayAndTime.format(then * 1000);
}

/**
 * Say how long something takes, as shortly as it still tells something.
 *
 * @param {number} seconds
 * @returns {string}
 */
export function duration(seconds) {
  const length = Math.max(0, seconds);
  if (length < 0.0995) {
    const milliseconds = length * 1000;
    const isTiny = milliseconds >= 0.05 && milliseconds < 0.95;
    return `${milliseconds.toFixed(isTiny ? 1 : 0)} ms`;
  }
  if (length < 59.95) return `${length.toFixed(1)} s`;
  const whole = Math.round(length);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor(minutes / 60) % 24} h`;
}

/**
 * Say when something was, since the run began.
 *
 * @param {number} seconds
 * @param {{digits?: number, longest?: number}} [options] longest: of the times it stands among,
 *   which are written alike
 */
export function moment(seconds, { digits = 2, longest = seconds } = {}) {
  return longest < CLOCK_FROM ? `${seconds.toFixed(digits)} s` : clock(seconds, digits);
}

/**
 * Write a time as a clock does: minutes and seconds, and hours if there are any.
 *
 * @param {number} time in seconds
 * @param {number} [digits] of a second
 * @returns {string}
 */
export function clock(time, digits = 0) {
  const whole = Number(time.toFixed(digits));
  const minutes = Math.floor(whole / 60);
  const rest = (whole - minutes * 60).toFixed(digits).padStart(digits > 0 ? digits + 3 : 2, "0");
  const hours = Math.floor(minutes / 60);
  if (hours === 0) return `${minutes}:${rest}`;
  return `${hours}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}
