/** Edit something at a step and fork from there. What has effects is asked first, by name, as on the command line. */

import { append, button, el, fill, fold } from "./dom.js";
import { jsonText } from "./exact_json.js";
import { compareRoute, runRoute } from "./routes.js";
import { callName } from "./run_rows.js";

/** @typedef {{kind: string, text: string, name?: string | null}} ForkQuestion */
/** @typedef {{run_id: string, status: string, error: string | null, deviations: ForkQuestion[]}} ForkAnswer */

/** @type {[string, string][]} */
const TOOL_CHANGES = [["result", "the result"], ["arguments", "the arguments"], ["state", "keys of the state"]];
/** @type {[string, string][]} */
const MODEL_CHANGES = [["answer", "the answer"], ["state", "keys of the state"]];

/**
 * @param {{post: (path: string, body: string) => Promise<any>, run: string, agent: string, row: Row, page: EventPage, step: () => string}} options
 */
export function forkForm(options) {
  const { row, page } = options;
  const changes = row.kind === "llm_call" ? MODEL_CHANGES : TOOL_CHANGES;
  const choice = el("select", { "aria-label": "What to change", change: () => fillIn() },
    ...changes.map(([name, label]) => el("option", { value: name }, label)));
  const text = el("textarea", { "aria-label": "The new value, as JSON", rows: 6, spellcheck: "false", class: "data" });
  const outcome = el("div", { class: "fork-outcome", "aria-live": "polite" });
  const fillIn = () => {
    text.value = choice.value === "state" ? "{}" : jsonText(choice.value === "arguments" ? page.arguments : page.result);
  };
  fillIn();
  const start = button("Fork", () => submit([], ""), { class: "button" });

  /** @param {string[]} live @param {string} attempt */
  const submit = async (live, attempt) => {
    start.disabled = true;
    fill(outcome, el("p", { class: "dim" }, "The agent runs…"));
    try {
      JSON.parse(text.value);
      const body = forkBody(options, choice.value, text.value, live, attempt);
      drawAnswer(await options.post("fork", body), live);
    } catch (problem) {
      fill(outcome, el("p", { class: "bad-text" }, String(problem)));
    }
    start.disabled = false;
  };

  /** @param {ForkAnswer} answer @param {string[]} live */
  const drawAnswer = (answer, live) => {
    const questions = answer.deviations.filter((deviation) => deviation.kind === "undecided" && deviation.name);
    fill(outcome,
      el("p", null, "Forked: ", el("a", { href: runRoute(answer.run_id) }, answer.run_id), ` ${answer.status}, `,
        el("a", { href: compareRoute(options.run, answer.run_id) }, "compare")),
      answer.error && !questions.length ? el("p", { class: "bad-text" }, answer.error) : null);
    append(outcome, questions.map((question) => el("p", null, question.text, " ",
      button(`Call ${question.name} for real, and go on`, () => submit([...live, question.name ?? ""], answer.run_id),
        { class: "small" }))));
  };

  return fold(["Edit and fork from here"], () => [
    el("p", { class: "dim" }, `Runs ${options.agent} on this machine. Calls with effects that are not recorded stop with a question.`),
    el("div", { class: "fork-form" }, choice, text, start), outcome], false, "section");
}

/**
 * Return the request. The new value stays as it was typed: a number may have more digits than JavaScript keeps.
 * @param {{run: string, row: Row, step: () => string}} options
 * @param {string} member
 * @param {string} value
 * @param {string[]} live
 * @param {string} attempt
 */
function forkBody({ run, row, step }, member, value, live, attempt) {
  const stepName = step();
  if (!stepName) {
    throw new Error("a fork changes the last call of its kind in a step, and this is an earlier one or outside of all steps");
  }
  const tool = member === "state" ? "" : callName(row);
  const known = JSON.stringify({ run, step: stepName, tool, live, attempt });
  return `${known.slice(0, -1)},${JSON.stringify(member)}:${value}}`;
}
