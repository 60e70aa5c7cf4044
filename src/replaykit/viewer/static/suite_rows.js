/** The items of a suite: what did not pass and what changed first, and the filter that selects some of them. */

import { numberOf } from "./exact_json.js";

const ORDER = ["failed", "error", "untested", "passed"];

/**
 * @typedef {{text: string, outcomes: Set<string>, parts: Set<string>, standings: Set<string>, cause: number | null,
 *   contract: string, scenario: string}} SuiteFilter
 */

/** @param {SuiteItemArray} values @param {number} index @returns {SuiteItem} */
function readItem(values, index) {
  const [part, id, outcome, verdict, reason, duration, cause, replay, outcomes, standing, since, contract, scenario,
    faults] = values;
  return { index, part, id, outcome, verdict, reason, duration: numberOf(duration), cause, replay, outcomes, standing,
    since, contract, scenario, faults, text: `${id} ${verdict} ${reason} ${contract} ${scenario}`.toLowerCase() };
}

export class SuiteRows {
  /** @param {SuiteItemArray[]} items */
  constructor(items) {
    this.byIndex = items.map(readItem);
    const ranks = new Map(ORDER.map((outcome, rank) => [outcome, rank]));
    const rankOf = (/** @type {SuiteItem} */ item) => 2 * (ranks.get(item.outcome) ?? 0) + (item.standing ? 0 : 1);
    this.all = this.byIndex.toSorted((a, b) => rankOf(a) - rankOf(b));
    this.shown = this.all;
    this.filter = noFilter();
  }

  get isFiltered() {
    const { text, outcomes, parts, standings, cause, contract, scenario } = this.filter;
    return text !== "" || outcomes.size + parts.size + standings.size > 0 || cause !== null || contract + scenario !== "";
  }

  clear() {
    this.filter = noFilter();
    this.refilter();
  }

  refilter() {
    this.shown = this.isFiltered ? this.all.filter((item) => this.selects(item)) : this.all;
  }

  /** @param {SuiteItem} item */
  selects(item) {
    const { text, outcomes, parts, standings, cause, contract, scenario } = this.filter;
    return (!outcomes.size || outcomes.has(item.outcome)) && (!parts.size || parts.has(item.part))
      && (!standings.size || standings.has(item.standing)) && (cause === null || item.cause === cause)
      && (!contract || item.contract === contract) && (!scenario || item.scenario === scenario)
      && item.text.includes(text);
  }

  /** The next item that did not pass in a direction, or -1. @param {number} from @param {1 | -1} direction */
  nextFailure(from, direction) {
    for (let index = from + direction; index >= 0 && index < this.shown.length; index += direction) {
      if (this.shown[index].outcome !== "passed") {
        return index;
      }
    }
    return -1;
  }

  /** Return the items of each cause, the causes with the most items first. @returns {SuiteItem[][]} */
  causes() {
    /** @type {Map<number, SuiteItem[]>} */
    const groups = new Map();
    for (const item of this.all) {
      if (item.cause !== null) {
        const group = groups.get(item.cause);
        if (group) {
          group.push(item);
        } else {
          groups.set(item.cause, [item]);
        }
      }
    }
    return [...groups.values()].sort((a, b) => b.length - a.length);
  }

  /**
   * Return the items that were checked against each contract in each scenario.
   * @returns {{contracts: string[], scenarios: string[], cell: (contract: string, scenario: string) => SuiteItem[]}}
   */
  matrix() {
    const checked = this.byIndex.filter((item) => item.part === "contract" && item.contract);
    const cells = Map.groupBy(checked, (item) => JSON.stringify([item.contract, item.scenario]));
    return {
      contracts: [...new Set(checked.map((item) => item.contract))],
      scenarios: [...new Set(checked.map((item) => item.scenario))],
      cell: (contract, scenario) => cells.get(JSON.stringify([contract, scenario])) ?? [],
    };
  }
}

/** @returns {SuiteFilter} */
function noFilter() {
  return { text: "", outcomes: new Set(), parts: new Set(), standings: new Set(), cause: null, contract: "", scenario: "" };
}
