/** Why a run, a replay or a case is red: pinned above its run, with expected beside actual. */

import { append, button, el, fold } from "./dom.js";
import { counted, tone } from "./format.js";
import { differenceList } from "./differences.js";
import { compareRoute } from "./routes.js";

/** @typedef {{toEvent: (seq: number) => void, toCall: (index: number) => void}} Jumps */

/** @param {RunPage} page @param {Jumps} jumps */
export function whyRun(page, jumps) {
  const seq = page.opens_at ?? null;
  if (seq === null || !page.why) {
    return null;
  }
  return el("section", { class: "why bad", "aria-label": "Why it failed" },
    el("div", { class: "why-line" },
      el("span", { class: "why-label" }, "Failed"),
      el("span", { class: "why-text" }, page.why.slice(0, 2000)),
      button(`Go to #${seq}`, () => jumps.toEvent(seq), { class: "small" })));
}

/** @param {ReplayPage} page @param {Jumps} jumps */
export function whyReplay(page, jumps) {
  const result = page.result;
  const failed = result.desired.filter((finding) => !finding.holds);
  const shown = result.observed.filter((finding) => finding.holds);
  const box = el("section", { class: `why ${tone(result.verdict)}`, "aria-label": "Verdict" },
    el("div", { class: "why-line" },
      el("span", { class: "why-label" }, result.verdict),
      el("span", { class: "why-text" }, result.reason || verdictText(result)),
      page.recorded && page.run
        ? el("a", { href: compareRoute(page.recorded, page.run), class: "small" }, "Compare with the recording") : null));
  append(box, [
    ...failed.map((finding) => findingLine(finding, "must hold", jumps)),
    ...shown.map((finding) => findingLine(finding, "failure signature", jumps)),
    ...result.semantic.filter((check) => check.status !== "pass").map(semanticLine),
    ...deviationLines(result.deviations.filter((deviation) => !result.reason.includes(deviation.text)), jumps),
    passedFold(result.desired.filter((finding) => finding.holds), jumps),
  ]);
  return box;
}

/** @param {ReplayResult} result */
function verdictText(result) {
  const { used, recorded } = result.evidence;
  return `${used} of ${counted(recorded, "recorded answer")} used${result.offline ? "" : ", with live calls"}`;
}

/** @param {CasePage} page @param {Jumps} jumps */
export function whyCase(page, jumps) {
  const box = el("section", { class: "why plain", "aria-label": "The case" },
    el("div", { class: "why-line" },
      el("span", { class: "why-label" }, "Case"),
      el("span", { class: "why-text" }, page.title || page.name),
      page.proof ? el("span", { class: "dim" }, page.proof) : null));
  append(box, [
    ...(page.problems ?? []).map((problem) =>
      el("div", { class: "finding" }, el("span", { class: "mark bad" }, "problem"), el("span", { class: "finding-text" }, problem))),
    ...(page.observed ?? []).map((finding) => findingLine(finding, finding.holds ? "signature holds" : "signature missing", jumps)),
    ...(page.desired ?? []).map((finding) => findingLine(finding, finding.holds ? "held" : "must hold", jumps)),
    ...(page.semantic ?? []).map(semanticLine),
    ...deviationLines(page.deviations ?? [], jumps),
    page.text ? fold([page.path || "The case's file"], () => [el("pre", { class: "data file" }, page.text)]) : null,
  ]);
  return box;
}

/** @param {Finding} finding @param {string} label @param {Jumps} jumps */
function findingLine(finding, label, jumps) {
  const seq = finding.seq ?? null;
  const isGood = label === "held";
  return el("div", { class: "finding" },
    el("span", { class: `mark ${isGood ? "good" : "bad"}` }, label),
    el("span", { class: "data strong finding-name" }, finding.id || finding.kind),
    finding.holds || !finding.expected
      ? el("span", { class: "finding-text" }, finding.text)
      : el("span", { class: "finding-text" },
        el("span", { class: "dim" }, "expected "), el("span", { class: "data" }, finding.expected.slice(0, 2000)),
        el("span", { class: "dim" }, " actual "), el("span", { class: "data strong" }, (finding.actual ?? "").slice(0, 2000))),
    seq === null ? null : button(`Go to #${seq}`, () => jumps.toEvent(seq), { class: "small" }));
}

/** @param {SemanticCheck} check */
function semanticLine(check) {
  return el("div", { class: "finding" },
    el("span", { class: `mark ${tone(check.status)}` }, check.status.replace("_", " ")),
    el("span", { class: "finding-text" }, check.text, check.reason ? ` (${check.reason})` : ""));
}

/** Deviations in words, equal ones once. @param {Deviation[]} deviations @param {Jumps} jumps */
function deviationLines(deviations, jumps) {
  const groups = Map.groupBy(deviations, (deviation) => `${deviation.kind} ${deviation.text}`);
  return [...groups.values()].map((group) => {
    const index = group[0].index ?? null;
    return el("div", { class: "finding" },
      el("span", { class: "mark warn" }, group[0].kind),
      el("span", { class: "finding-text lines" }, group[0].text.slice(0, 4000), group.length > 1 && ` × ${group.length}`),
      index === null ? null : button(`Go to call ${index + 1}`, () => jumps.toCall(index), { class: "small" }));
  });
}

/** @param {Finding[]} findings @param {Jumps} jumps */
function passedFold(findings, jumps) {
  return findings.length
    ? fold([counted(findings.length, "assertion"), " held"],
      () => findings.map((finding) => findingLine(finding, "held", jumps)))
    : null;
}

/** The first divergence: recorded beside current. @param {FirstDivergence} first @param {string[]} names */
export function divergence(first, names) {
  const sides = [[names[0], first.a_text, first.a_step], [names[1], first.b_text, first.b_step]].map(([name, text, step]) =>
    el("div", { class: "side" },
      el("div", { class: "side-name" }, name, step && el("span", { class: "dim" }, ` ${step}`)),
      el("div", { class: "data" }, text || "nothing")));
  return el("div", { class: "divergence" },
    first.a_text || first.b_text ? el("div", { class: "sides" }, ...sides) : null,
    differenceList(first.differences));
}

/**
 * Add where a replay left its recording: recorded beside current.
 * @param {HTMLElement} box
 * @param {ReplayPage} page
 * @param {Source} source
 */
export async function addDivergence(box, page, source) {
  const path = `compare/${encodeURIComponent(page.recorded ?? "")}/${encodeURIComponent(page.run ?? "")}`;
  const compared = /** @type {ComparePage | null} */ (await source.get(path).catch(() => null));
  if (compared?.comparison.first) {
    append(box, [divergence(compared.comparison.first, ["recorded", "now"])]);
  }
}
