// @ts-check
/** Amounts and times for people to read, in the same words as `kubectl tjob`. */

const STEPS = /** @type {[number, string][]} */ ([[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]]);
let ahead = 0; // seconds by which the cluster's clock is ahead of this one

/** @param {number} now the cluster's time, in seconds */
export function setClock(now) {
  ahead = now - Date.now() / 1000;
}

/** The cluster's time, in seconds since 1970. */
export function clock() {
  return Date.now() / 1000 + ahead;
}

/** @param {number | null | undefined} value */
export function usd(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  const digits = size >= 10_000 ? 0 : size >= 0.01 || size === 0 ? 2 : 4;
  const text = size.toLocaleString("en-US", {
    minimumFractionDigits: digits, maximumFractionDigits: digits,
  });
  return `${value < 0 ? "-" : ""}$${text}`;
}

/** @param {number | null | undefined} value */
export function count(value) {
  return value == null ? "–" : value.toLocaleString("en-US");
}

/** @param {number | null | undefined} seconds */
export function span(seconds) {
  if (seconds == null) return "–";
  const left = Math.floor(Math.abs(seconds));
  for (let i = 0; i < STEPS.length; i++) {
    const [size, unit] = STEPS[i];
    if (left < size) continue;
    const smaller = STEPS[i + 1];
    const rest = smaller && left < 10 * size ? Math.floor((left % size) / smaller[0]) : 0;
    return `${Math.floor(left / size)}${unit}${rest ? `${rest}${smaller[1]}` : ""}`;
  }
  return "0s";
}

/** @param {number | null | undefined} at */
export function ago(at) {
  return at == null ? "–" : span(Math.max(0, clock() - at));
}

/**
 * A time of day; with its date if it is not today.
 * @param {number | null | undefined} at
 * @param {boolean} [withSeconds]
 */
export function time(at, withSeconds = true) {
  if (at == null) return "–";
  const date = new Date(at * 1000);
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  const day = `${two(date.getMonth() + 1)}-${two(date.getDate())} `;
  const isToday = new Date(clock() * 1000).toDateString() === date.toDateString();
  const seconds = withSeconds ? `:${two(date.getSeconds())}` : "";
  return `${isToday ? "" : day}${two(date.getHours())}:${two(date.getMinutes())}${seconds}`;
}
