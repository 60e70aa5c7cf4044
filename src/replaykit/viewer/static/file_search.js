/** The search of `search.py` over the events of a shared file: exact, or in another spelling. */

import { ExactNumber, isContainer, memberPath, parseExactly } from "./exact_json.js";

const MAX_OCCURRENCES = 1000;
const AROUND_CHARS = 60;
const EVENT_PLACES = ["arguments", "result", "content", "items", "conversation", "options", "errors", "facts"];

/**
 * Add the occurrences of a text in a list of event pages; false once there are enough.
 * @param {string} json
 * @param {string} text
 * @param {Occurrence[]} found
 */
export function findText(json, text, found) {
  const words = folded(text).match(/[a-z0-9]+/g) ?? [];
  const number = numberOf(text);
  const longest = number === null ? words.sort((a, b) => b.length - a.length)[0] ?? "" : "";
  if (!text.trim() || (longest && !json.toLowerCase().includes(longest))) {
    return true;
  }
  for (const page of /** @type {any[]} */ (parseExactly(json))) {
    for (const place of EVENT_PLACES.filter((name) => name in page)) {
      for (const [path, value] of leaves(searched(place, page[place]))) {
        const match = matchIn(value, text, number);
        if (match) {
          found.push({ seq: page.row[0], place, path, excerpt: excerpt(value, match.at, text.length), is_exact: match.isExact });
        }
        if (found.length >= MAX_OCCURRENCES) {
          return false;
        }
      }
    }
  }
  return true;
}

/** Return what is searched of a member: of a conversation, only the messages that are new. @param {string} place @param {any} value */
function searched(place, value) {
  return place === "conversation"
    ? value.map((/** @type {ConversationMessage} */ message) => (message.is_new ? message : null))
    : value;
}

/** @param {Json} value @returns {Generator<[string, string]>} */
function* leaves(value) {
  /** @type {[string, Json][]} */
  const stack = [["$", value]];
  for (let next = stack.pop(); next; next = stack.pop()) {
    const [path, item] = next;
    if (isContainer(item)) {
      const isList = Array.isArray(item);
      const members = Object.keys(item).map((key) => /** @type {[string, Json]} */ ([memberPath(path, isList ? Number(key) : key), item[key]]));
      stack.push(...members.reverse());
    } else if (typeof item === "string") {
      yield [path, item];
    } else if (typeof item === "number" || item instanceof ExactNumber) {
      yield [path, item instanceof ExactNumber ? item.source : String(item)];
    }
  }
}

/** @param {string} value @param {string} text @param {number | null} number */
function matchIn(value, text, number) {
  const at = value.indexOf(text);
  if (at >= 0) {
    return { at, isExact: true };
  }
  if (number !== null) {
    const found = [...value.matchAll(/[+-]?\d[\d,']*(?:\.\d+)?/g)].find((match) => numberOf(match[0]) === number);
    return found ? { at: found.index, isExact: false } : null;
  }
  const place = folded(value).indexOf(folded(text));
  return place >= 0 ? { at: place, isExact: false } : null;
}

/** @param {string} value @param {number} at @param {number} length */
function excerpt(value, at, length) {
  const first = Math.max(0, at - AROUND_CHARS);
  return `${first ? "…" : ""}${value.slice(first, at + Math.min(length, 1000) + AROUND_CHARS)}`;
}

/** @param {string} text */
function folded(text) {
  return text.split(/\s+/).filter(Boolean).join(" ").toLowerCase();
}

/** @param {string} text */
function numberOf(text) {
  return /^[+-]?\d[\d,']*(?:\.\d+)?$/.test(text.trim()) ? Number(text.replace(/[,'\s]/g, "")) : null;
}
