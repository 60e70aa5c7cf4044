/** The agent's state at an event, and what changed since the previous checkpoint. */

import { el, fold } from "./dom.js";
import { counted } from "./format.js";
import { differenceList, valueDifferences } from "./differences.js";
import { jsonTree } from "./json_tree.js";

const MAX_DIFFERENCES = 2000;

/**
 * @param {StatePage} page
 * @param {string} base the route of the run
 */
export function stateView(page, base) {
  if (page.missing) {
    return el("p", { class: "dim" }, page.missing);
  }
  const box = el("div", { class: "state" });
  const place = page.step ? `${page.step} (#${page.seq})` : `#${page.seq}`;
  box.append(el("p", { class: "dim" }, "Checkpoint ", el("a", { href: `${base}/${page.seq}` }, place)));
  if ("before" in page) {
    const differences = firstDifferences(page);
    box.append(
      el("h4", null, differences.length ? counted(differences.length, "change") : "No change",
        " since the previous checkpoint"),
      differenceList(differences),
    );
  }
  box.append(fold(["The whole state"], () => [jsonTree(page.state, { path: "$.state" })],
    !("before" in page)));
  return box;
}

/** @param {StatePage} page */
function firstDifferences(page) {
  const differences = [];
  for (const difference of valueDifferences(page.before, page.state)) {
    differences.push(difference);
    if (differences.length === MAX_DIFFERENCES) {
      break;
    }
  }
  return differences;
}
