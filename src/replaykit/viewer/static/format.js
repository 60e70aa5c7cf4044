/** Figures in words. */

/** @param {number | null | undefined} value in seconds */
export function duration(value) {
  if (value === null || value === undefined) {
    return "";
  }
  const seconds = Number(value);
  if (seconds < 0.001) {
    return `${Math.round(seconds * 1e6)} µs`;
  }
  if (seconds < 1) {
    return `${Number((seconds * 1000).toPrecision(3))} ms`;
  }
  if (seconds < 60) {
    return `${Number(seconds.toPrecision(3))} s`;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) {
    return `${minutes} min ${Math.round(seconds % 60)} s`;
  }
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** @param {number} value */
export function count(value) {
  return value.toLocaleString("en-US");
}

/** @param {number} value @param {string} noun */
export function counted(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** @param {number | null | undefined} value in US dollars */
export function cost(value) {
  if (value === null || value === undefined) {
    return "";
  }
  const usd = Number(value);
  return "$" + (usd !== 0 && usd < 0.01 ? usd.toPrecision(2) : usd.toFixed(2));
}

/** @param {number} characters */
export function size(characters) {
  if (characters < 1000) {
    return counted(characters, "character");
  }
  const [value, unit] = characters < 1e6 ? [characters / 1e3, "k"] : [characters / 1e6, "M"];
  return `${value.toFixed(1)}${unit} characters`;
}

const LAST_MOMENT_MS = 8e15; // of a calendar in JavaScript

/** @param {number | undefined} seconds since the epoch */
export function moment(seconds) {
  if (!Number(seconds)) { // 0.0 arrives as an exact number, which is an object
    return "";
  }
  const date = new Date(Number(seconds) * 1000);
  if (!(Math.abs(date.getTime()) < LAST_MOMENT_MS)) {
    return "";
  }
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60000);
  return local.toISOString().slice(0, 19).replace("T", " ");
}

const KINDS = /** @type {Record<string, string>} */ ({
  tool_call: "tool", llm_call: "model", exchange: "http", message: "message", state: "state", decision: "decision",
  error: "error", note: "note",
});

/** @param {string} kind */
export function kindName(kind) {
  return KINDS[kind] ?? kind;
}

const STATUS_TONES = {
  good: ["success", "fixed", "pass"],
  bad: ["error", "timeout", "reproduced", "broken", "fail"],
  warn: ["cancelled", "diverged", "flaky", "inconclusive", "needs_human"],
  live: ["running"],
};

/** Return the colour of a status or verdict. @param {string} status */
export function tone(status) {
  const found = Object.entries(STATUS_TONES).find(([, words]) => words.includes(status));
  return found ? found[0] : "plain";
}
