/** JSON whose numbers stay as they were written: 2^53 + 1, 1.0 and 1e400 are no JavaScript numbers. */

export class ExactNumber {
  /** @param {string} source */
  constructor(source) {
    this.source = source;
  }

  valueOf() {
    return Number(this.source);
  }
}

/**
 * @param {string} text
 * @returns {any}
 */
export function parseExactly(text) {
  try {
    return JSON.parse(text, keepNumber);
  } catch (problem) {
    if (problem instanceof RangeError) {
      return JSON.parse(text); // nested too deeply for a reviver
    }
    throw problem;
  }
}

/**
 * @this {any}
 * @param {string} _key
 * @param {any} value
 * @param {{source?: string}} [context]
 */
function keepNumber(_key, value, context) {
  if (typeof value === "number" && context?.source !== undefined && context.source !== String(value)) {
    return new ExactNumber(context.source);
  }
  return value;
}

/** Return a number to calculate with. @param {number | ExactNumber} value */
export function numberOf(value) {
  return value instanceof ExactNumber ? Number(value.source) : value;
}

/** Return a value as JSON text. @param {Json} value @param {string} [indent] @returns {string} */
export function jsonText(value, indent = "") {
  if (value instanceof ExactNumber) {
    return value.source;
  }
  if (value === null || typeof value !== "object") {
    return JSON.stringify(value) ?? "";
  }
  const inner = indent + "  ";
  const items = Array.isArray(value)
    ? value.map((item) => jsonText(item, inner))
    : Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${jsonText(item, inner)}`);
  const [begin, end] = Array.isArray(value) ? "[]" : "{}";
  return items.length ? `${begin}\n${inner}${items.join(`,\n${inner}`)}\n${indent}${end}` : begin + end;
}

/** @param {Json} a @param {Json} b @returns {boolean} */
export function equal(a, b) {
  if (a instanceof ExactNumber || b instanceof ExactNumber) {
    return a instanceof ExactNumber && b instanceof ExactNumber && a.source === b.source;
  }
  if (!isContainer(a) || !isContainer(b) || Array.isArray(a) !== Array.isArray(b)) {
    return a === b;
  }
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => key in b && equal(a[key], b[key]));
}

/** @param {Json} value @returns {value is Record<string, Json>} */
export function isContainer(value) {
  return typeof value === "object" && value !== null && !(value instanceof ExactNumber);
}

/** Return the path of a member or item below another path. @param {string} path @param {string | number} key */
export function memberPath(path, key) {
  if (typeof key === "number") {
    return `${path}[${key}]`;
  }
  if (/^[\p{L}\p{N}_]+$/u.test(key)) {
    return `${path}.${key}`;
  }
  const quote = key.includes("'") && !key.includes('"') ? '"' : "'";
  const quoted = key.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\t", "\\t");
  return `${path}[${quote}${quote === "'" ? quoted.replaceAll("'", "\\'") : quoted}${quote}]`;
}
