/** Text for a page: characters that hide, reorder or control text are spelled out. */

const HIDDEN = /(?![\n\t\ufe0e\ufe0f])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;

/**
 * Return the text with every hidden character as an escape that JSON knows: `\u202e`.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(HIDDEN, spelling);
}

/** @param {string} char */
function spelling(char) {
  let escapes = "";
  for (let index = 0; index < char.length; index++) {
    escapes += "\\u" + char.charCodeAt(index).toString(16).padStart(4, "0");
  }
  return escapes;
}

/**
 * Return the text on one line, cut to a length.
 * @param {string} text
 * @param {number} length
 */
export function oneLine(text, length) {
  const line = text.slice(0, 2 * length).replace(/\s+/g, " ").trim();
  return line.length > length || text.length > 2 * length ? line.slice(0, length) + "…" : line;
}
