/** The first line of a run: what it is, how it ended, and its figures. */

import { el } from "./dom.js";
import { cost, count, counted, duration, moment, tone } from "./format.js";
import { compareRoute, runRoute } from "./routes.js";

/** @param {RunPage} page */
export function runName(page) {
  return page.header.name || page.header.agent || page.header.id;
}

/** @param {RunPage} page @param {string} [title] */
export function runHead(page, title) {
  const { header, totals } = page;
  const length = header.ended_at && header.started_at ? header.ended_at - header.started_at : null;
  const status = page.is_running ? "running" : header.status ?? "";
  const parent = header.origin?.run;
  return el("header", { class: "run-head" },
    el("h1", null, title || runName(page)),
    el("span", { class: `badge ${tone(status)}` }, status),
    el("div", { class: "run-figures" },
      figure("started", moment(header.started_at)),
      figure("took", duration(length)),
      totals && figure("", counted(totals.events, "event")),
      totals && figure("", counted(totals.calls, "call")),
      totals && totals.errors > 0 && el("span", { class: "bad-text" }, counted(totals.errors, "error")),
      totals && totals.input_tokens !== null && figure("tokens in", count(totals.input_tokens)),
      totals && totals.output_tokens !== null && figure("out", count(totals.output_tokens)),
      totals && totals.cost_usd !== null && figure("cost", cost(totals.cost_usd)),
      parent ? el("span", null,
        el("span", { class: "dim" }, `${header.origin?.kind} from `), el("a", { href: runRoute(parent) }, parent),
        header.origin?.step && el("span", { class: "dim" }, ` at ${header.origin.step}`), " ",
        el("a", { href: compareRoute(parent, page.address) }, "compare")) : null,
    ));
}

/** @param {string} label @param {string} value */
function figure(label, value) {
  return value ? el("span", null, label && el("span", { class: "dim" }, `${label} `), value) : null;
}
