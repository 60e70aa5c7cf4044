/** Text of any length: long ones are folded, and shown in portions. */

import { append, button, el } from "./dom.js";
import { size } from "./format.js";

const FOLDED_CHARS = 1200;
const FOLDED_LINES = 16;
const PORTION = 50_000;

/**
 * @param {string} text
 * @param {string} [className]
 */
export function longText(text, className = "prose") {
  const brief = shortened(text);
  const body = el("span", null, brief);
  const box = el("div", { class: `long-text ${className}` }, body);
  if (brief.length < text.length) {
    append(box, [moreButton(text, brief.length, body)]);
  }
  return box;
}

/** @param {string} text */
function shortened(text) {
  const lines = text.slice(0, FOLDED_CHARS).split("\n");
  return text.length > FOLDED_CHARS || lines.length > FOLDED_LINES ? lines.slice(0, FOLDED_LINES).join("\n") : text;
}

/**
 * @param {string} text
 * @param {number} shown
 * @param {HTMLElement} body
 */
function moreButton(text, shown, body) {
  const label = () => (text.length - shown > PORTION ? `Show more of ${size(text.length)}` : `Show all ${size(text.length)}`);
  const more = button(label(), () => {
    append(body, [text.slice(shown, shown + PORTION)]);
    shown += PORTION;
    more.textContent = label();
    more.hidden = shown >= text.length;
  }, { class: "link more" });
  return more;
}
