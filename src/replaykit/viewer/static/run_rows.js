/** The rows of a run, as they arrive, and which of them a filter selects. */

/** @typedef {{kinds: Set<string>, text: string, errorsOnly: boolean, found: Set<number> | null}} Filter */

export const CALL_KINDS = new Set(["tool_call", "llm_call", "exchange"]);
const MAX_DEPTH = 8; // that a list shows

/** @param {RowArray} values @returns {Row} */
export function readRow(values) {
  const [seq, kind, title, answer = "", step = "", at = null, duration = null, parent = null, marks = [], tokens = null,
    cost = null] = values;
  return { seq, kind, title, answer, step, at, duration, parent, marks, tokens, cost };
}

/** The tool or the model of a call. @param {Row} row */
export function callName(row) {
  return row.title.split(row.kind === "tool_call" ? "(" : "  ", 1)[0];
}

/** @param {Row} row */
export function isFailure(row) {
  return row.marks.includes("error") || row.kind === "error";
}

export class RunRows {
  constructor() {
    /** @type {Row[]} */
    this.all = [];
    /** @type {Row[]} */
    this.shown = [];
    /** @type {Map<number, Row>} */
    this.bySeq = new Map();
    /** @type {Filter} */
    this.filter = { kinds: new Set(), text: "", errorsOnly: false, found: null };
  }

  /** @param {RowArray[]} batch */
  add(batch) {
    const added = [];
    for (const values of batch) {
      const row = readRow(values);
      const known = this.bySeq.get(row.seq);
      if (known) {
        Object.assign(known, row); // of a run in progress: a call that has ended meanwhile
      } else {
        this.bySeq.set(row.seq, row);
        added.push(row);
      }
    }
    addInOrder(this.all, added);
    addInOrder(this.shown, added.filter((row) => this.selects(row)));
  }

  /** The number of calls around an event. @param {Row} row */
  depthOf(row) {
    let depth = 0;
    for (let parent = row.parent; parent !== null && depth < MAX_DEPTH; depth++) {
      parent = this.bySeq.get(parent)?.parent ?? null;
    }
    return depth;
  }

  get isFiltered() {
    const { kinds, text, errorsOnly } = this.filter;
    return kinds.size > 0 || text !== "" || errorsOnly;
  }

  refilter() {
    this.shown = this.isFiltered ? this.all.filter((row) => this.selects(row)) : [...this.all];
  }

  /** @param {Row} row */
  selects(row) {
    const { kinds, text, errorsOnly, found } = this.filter;
    if (kinds.size && !kinds.has(row.kind)) {
      return false;
    }
    if (errorsOnly && !isFailure(row)) {
      return false;
    }
    return !text || Boolean(found?.has(row.seq)) || hasText(row, text);
  }

  /** The position of an event among the shown rows, or of the last one before it. @param {number} seq */
  positionOf(seq) {
    let low = 0;
    let high = this.shown.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.shown[middle].seq < seq) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /**
   * The name of the step that a fork at this call changes: a fork changes the last call of a tool or model in a step. If
   * the agent marks no steps, each call is one. Empty if a fork would change another call.
   * @param {Row} row
   */
  forkStep(row) {
    const calls = this.all.filter((other) => CALL_KINDS.has(other.kind));
    if (!this.all.some((other) => other.step)) {
      return `step_${calls.findIndex((other) => other.seq === row.seq) + 1}`;
    }
    const alike = calls.filter((other) => other.step === row.step && other.kind === row.kind && callName(other) === callName(row));
    return alike.at(-1)?.seq === row.seq ? row.step : "";
  }

  /** The next failure in a direction, or -1. @param {number} from @param {1 | -1} direction */
  nextFailure(from, direction) {
    for (let index = from + direction; index >= 0 && index < this.shown.length; index += direction) {
      if (isFailure(this.shown[index])) {
        return index;
      }
    }
    return -1;
  }
}

/** @param {Row} row @param {string} text in lower case */
function hasText(row, text) {
  return [row.title, row.answer, row.step].some((part) => part.toLowerCase().includes(text));
}

/** @param {Row[]} rows in order @param {Row[]} added */
function addInOrder(rows, added) {
  let last = rows.at(-1)?.seq ?? -1;
  let isOrdered = true;
  for (const row of added) {
    isOrdered &&= row.seq > last;
    last = row.seq;
    rows.push(row);
  }
  if (!isOrdered) {
    rows.sort((a, b) => a.seq - b.seq);
  }
}
