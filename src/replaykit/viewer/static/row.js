/** One event in the list of a run. */

import { el } from "./dom.js";
import { count, duration, kindName } from "./format.js";
import { isFailure } from "./run_rows.js";

const MARKS = /** @type {Record<string, string>} */ ({
  stream: "stream", cut: "left early", fault: "fault", unanswered: "no answer",
});

/**
 * @param {Row} row
 * @param {{isPinned: boolean, isNewStep: boolean, depth: number}} place
 */
export function drawRow(row, place) {
  const failed = isFailure(row);
  const marks = rowMarks(row, place);
  const classes = ["row", `kind-${kindName(row.kind)}`, failed && "failed", place.isPinned && "pinned",
    !row.answer && "brief", !marks.length && "unmarked"];
  const element = el(
    "div",
    { class: classes.filter(Boolean).join(" ") },
    el("span", { class: "row-seq" }, row.seq),
    el("span", { class: "row-kind" }, kindName(row.kind)),
    el("span", { class: "row-title" }, row.title.slice(0, 400)),
    el("span", { class: "row-answer" }, row.answer.slice(0, 400)),
    el("span", { class: "row-marks" }, ...marks),
    el("span", { class: "row-figures" },
      row.tokens !== null && el("span", { class: "dim" }, `${count(row.tokens)} tok`),
      row.duration !== null && el("span", null, duration(row.duration)),
    ),
  );
  element.style.setProperty("--depth", String(place.depth));
  return element;
}

/** @param {Row} row @param {{isPinned: boolean, isNewStep: boolean}} place */
function rowMarks(row, place) {
  const marks = row.marks.filter((mark) => mark in MARKS).map((mark) => el("span", { class: "mark" }, MARKS[mark]));
  if (place.isPinned) {
    marks.unshift(el("span", { class: "mark bad" }, "failed here"));
  } else if (isFailure(row)) {
    marks.unshift(el("span", { class: "mark bad" }, "error"));
  }
  if (place.isNewStep && row.step) {
    marks.push(el("span", { class: "mark step" }, row.step.slice(0, 60)));
  }
  return marks;
}
