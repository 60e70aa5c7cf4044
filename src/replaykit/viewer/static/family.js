/** A run and its forks as a tree. */

import { el } from "./dom.js";
import { counted, tone } from "./format.js";
import { compareRoute, runRoute } from "./routes.js";

/** @param {FamilyPage} page @param {string} current the run that is shown */
export function familyTree(page, current) {
  return el("ul", { class: "family" }, familyMember(page, null, current));
}

/** @param {FamilyPage} page @param {string | null} parent @param {string} current @returns {HTMLElement} */
function familyMember(page, parent, current) {
  const { run } = page;
  const isCurrent = run.id === current;
  return el("li", null,
    el("div", { class: isCurrent ? "family-run current" : "family-run" },
      isCurrent
        ? el("strong", { class: "data", "aria-current": "page" }, run.name || run.id)
        : el("a", { href: runRoute(run.id), class: "data" }, run.name || run.id),
      run.status && el("span", { class: `badge ${tone(run.status)}` }, run.status),
      run.step && el("span", { class: "dim" }, `forked at ${run.step}`),
      typeof run.events === "number" && el("span", { class: "dim" }, counted(run.events, "event")),
      parent && el("a", { href: compareRoute(parent, run.id) }, "compare with its parent")),
    page.children.length
      ? el("ul", null, ...page.children.map((child) => familyMember(child, run.id, current))) : null);
}

/** @param {FamilyPage} page */
export function hasRelatives(page) {
  return page.children.length > 0 || Boolean(page.run.forked_from);
}
