/** Keys, and the dialog that explains them. */

import { button, el } from "./dom.js";

const HELP = [
  ["j k ↓ ↑", "next and previous event"], ["n p", "next and previous failure, or difference"],
  ["g G", "first and last event"], ["Enter", "read the event"], ["o", "the run as a whole"],
  ["/", "search"], ["f", "find where the selected text came from"], ["t", "light or dark"],
  ["h", "all runs"], ["Esc", "close, clear the filter, back to the list"], ["?", "this help"],
];

/**
 * Call what the current view does for a key. Letters stay with fields that take text.
 * @param {() => Record<string, () => void>} bindings
 */
export function listenToKeys(bindings) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) {
      return;
    }
    const target = event.target instanceof HTMLElement ? event.target : document.body;
    const isField = target.matches("input[type=search], select, textarea");
    if (isField && event.key === "Escape") {
      target.blur();
    }
    const isPressed = target.matches("a, button, summary, input") && ["Enter", " "].includes(event.key);
    const scrolls = target.closest(".detail, .trace") && /^(Arrow|Page|Home|End)/.test(event.key);
    const action = bindings()[event.key];
    if (action && !isPressed && !scrolls && !(isField && event.key !== "Escape")) {
      event.preventDefault();
      action();
    }
  });
}

export function showHelp() {
  const dialog = el("dialog", { class: "help", "aria-label": "Keys" },
    el("h2", null, "Keys"),
    el("dl", null, ...HELP.flatMap(([keys, meaning]) => [
      el("dt", null, ...keys.split(" ").map((key) => el("kbd", null, key))), el("dd", null, meaning)])),
    button("Close", () => dialog.close(), { class: "small" }));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
