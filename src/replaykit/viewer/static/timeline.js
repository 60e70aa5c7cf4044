/** The calls of a run over time. Overlapping calls lie in lanes below each other; what shares a pixel is drawn once. */

import { announce, button, el, fill } from "./dom.js";
import { duration } from "./format.js";
import { isFailure } from "./run_rows.js";

const LANE_HEIGHT = 13;
const AXIS_HEIGHT = 18;
const FAULTS_HEIGHT = 16;
const FAULT_WIDTH = 70; // pixels of a label; faults that are closer share one
const TICK_WIDTH = 90; // pixels from one to the next, at least
const MAX_DIGITS = 100;
const MAX_LANES = 9;
const LAYOUT_DELAY_MS = 300;
const UNITS = /** @type {[number, string][]} */ ([[1, "s"], [1e-3, "ms"]]);
const COLOURS = ["--text-dim", "--bar-tool", "--bar-model", "--bar-http", "--bad", "--warn", "--accent", "--line"];

export class Timeline {
  /** @param {(seq: number) => void} onSelect */
  constructor(onSelect) {
    this.onSelect = onSelect;
    /** @type {Row[]} */
    this.rows = [];
    /** @type {number[]} */
    this.lanes = [];
    /** @type {number[]} */
    this.laneEnds = [];
    /** @type {Map<number, number>} */
    this.laneOf = new Map();
    /** @type {Row[]} */
    this.faults = [];
    this.selected = -1;
    this.timer = 0;
    this.begin = 0;
    this.end = 0;
    this.from = 0;
    this.to = 0;
    this.canvas = el("canvas", { role: "img", "aria-label": "Timeline of the run; the list has the same events and faults",
      click: (event) => this.click(event), wheel: (event) => this.wheel(event), mousemove: (event) => this.hover(event) });
    this.tip = el("div", { class: "timeline-tip dim" });
    this.element = el("section", { class: "timeline", "aria-label": "Timeline", hidden: true }, this.canvas,
      el("div", { class: "timeline-bar" }, this.tip,
        button("−", () => this.zoom(2), { "aria-label": "Show more of the timeline" }),
        button("+", () => this.zoom(0.5), { "aria-label": "Show less of the timeline" }),
        button("Fit", () => this.fit())));
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.redraw = () => this.draw();
    this.scheme.addEventListener("change", this.redraw);
    addEventListener("themechange", this.redraw);
  }

  close() {
    clearTimeout(this.timer);
    this.observer.disconnect();
    this.scheme.removeEventListener("change", this.redraw);
    removeEventListener("themechange", this.redraw);
  }

  /** Lay out the rows of a run, after a while: rows arrive in many batches. @param {Row[]} rows */
  update(rows) {
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.layOut(rows);
    }, this.rows.length ? LAYOUT_DELAY_MS : 0);
  }

  /** @param {Row[]} rows */
  layOut(rows) {
    const wasFit = this.from <= this.begin && this.to >= this.end;
    [this.rows, this.lanes, this.laneEnds] = [[], [], []];
    this.begin = Infinity;
    this.faults = [];
    this.laneOf.clear();
    for (const row of rows) {
      if (row.at !== null && Number.isFinite(row.at + (row.duration ?? 0))) {
        this.place(row, row.at, row.duration ?? 0);
      }
    }
    this.element.hidden = !(this.end > this.begin);
    if (wasFit) {
      this.fit();
    } else {
      this.draw();
    }
  }

  /** @param {Row} row @param {number} at @param {number} length */
  place(row, at, length) {
    let lane = row.parent === null ? 0 : (this.laneOf.get(row.parent) ?? -1) + 1;
    while (lane < MAX_LANES - 1 && (this.laneEnds[lane] ?? -1) > at + 1e-9) {
      lane++;
    }
    lane = Math.min(lane, MAX_LANES - 1);
    if (length > 0) {
      this.laneEnds[lane] = Math.max(this.laneEnds[lane] ?? 0, at + length);
    }
    this.laneOf.set(row.seq, lane);
    this.rows.push(row);
    if (row.marks.includes("fault")) {
      this.faults.push(row);
    }
    this.lanes.push(lane);
    this.begin = Math.min(this.begin, at);
    this.end = Math.max(this.end, at + length);
  }

  /** Where the lanes begin, below the axis and the labels of faults. */
  get top() {
    return AXIS_HEIGHT + (this.faults.length ? FAULTS_HEIGHT : 0);
  }

  fit() {
    [this.from, this.to] = [this.begin, this.end];
    this.draw();
  }

  /** @param {number} factor @param {number} [centre] */
  zoom(factor, centre) {
    const selected = this.rows.find((row) => row.seq === this.selected)?.at;
    const middle = centre ?? selected ?? (this.from + this.to) / 2;
    const whole = this.end - this.begin;
    const span = Math.min(whole, Math.max(whole / 1e5, (this.to - this.from) * factor));
    const share = centre === undefined ? 0.5 : (middle - this.from) / (this.to - this.from);
    this.moveTo(middle - span * share, span);
    announce(`The timeline shows ${duration(span)}`);
  }

  /** @param {number} from @param {number} span */
  moveTo(from, span) {
    this.from = Math.max(this.begin, Math.min(from, this.end - span));
    this.to = this.from + span;
    this.draw();
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    const span = this.to - this.from;
    if (event.ctrlKey) {
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.from + (span * event.offsetX) / this.canvas.clientWidth);
    } else if (event.deltaX) {
      event.preventDefault();
      this.moveTo(this.from + (span * event.deltaX) / this.canvas.clientWidth, span);
    }
  }

  /** Return the row at a point. @param {MouseEvent} event */
  rowAt(event) {
    const at = this.from + ((this.to - this.from) * event.offsetX) / this.canvas.clientWidth;
    const near = ((this.to - this.from) * 5) / this.canvas.clientWidth;
    const lane = Math.floor((event.offsetY - this.top) / LANE_HEIGHT);
    let best = null;
    let bestDistance = near;
    for (let index = 0; index < this.rows.length; index++) {
      const row = this.rows[index];
      const begin = row.at ?? 0;
      const distance = Math.max(begin - at, at - begin - (row.duration ?? 0), 0);
      if (this.lanes[index] === lane && distance <= bestDistance) {
        [best, bestDistance] = [row, distance];
      }
    }
    return best;
  }

  /** @param {MouseEvent} event */
  click(event) {
    const row = this.rowAt(event);
    if (row) {
      this.onSelect(row.seq);
    }
  }

  /** @param {MouseEvent} event */
  hover(event) {
    const row = this.rowAt(event);
    fill(this.tip, row ? `#${row.seq} ${row.title.slice(0, 120)}  ${duration(row.duration)}${row.marks.includes("fault") ? "  injected fault" : ""}` : "");
  }

  /** @param {number} seq */
  select(seq) {
    this.selected = seq;
    const at = this.rows.find((row) => row.seq === seq)?.at ?? null;
    if (at !== null && (at < this.from || at > this.to)) {
      this.moveTo(at - (this.to - this.from) / 2, this.to - this.from);
    } else {
      this.draw();
    }
  }

  draw() {
    const width = this.canvas.parentElement?.clientWidth ?? 0;
    if (this.element.hidden || !width) {
      return;
    }
    const lanes = Math.max(1, this.laneEnds.length);
    const height = this.top + lanes * LANE_HEIGHT + 4;
    const ratio = devicePixelRatio;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    if (context) {
      context.scale(ratio, ratio);
      const colours = this.colours();
      this.drawAxis(context, width, height, colours);
      this.drawBars(context, width, colours);
      this.drawFaults(context, width, colours);
      this.drawSelection(context, width, colours);
    }
  }

  /** Resolve the theme's colours for the canvas. @returns {Record<string, string>} */
  colours() {
    return Object.fromEntries(COLOURS.map((name) => {
      this.canvas.style.color = `var(${name})`;
      return [name, getComputedStyle(this.canvas).color];
    }));
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   * @param {number} height
   * @param {Record<string, string>} colours
   */
  drawAxis(context, width, height, colours) {
    const step = niceStep(((this.to - this.from) * TICK_WIDTH) / width);
    context.font = "11px system-ui, sans-serif";
    const first = Math.ceil(this.from / step);
    // Adding a step to a large time may not change it, so the ticks are counted.
    for (let tick = 0; tick <= width / TICK_WIDTH && (first + tick) * step <= this.to; tick++) {
      const at = (first + tick) * step;
      const x = this.x(at, width);
      context.fillStyle = colours["--line"];
      context.fillRect(x, 0, 1, height);
      context.fillStyle = colours["--text-dim"];
      context.fillText(axisLabel(at, step, this.to), x + 4, 12);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {Record<string, string>} colours */
  drawBars(context, width, colours) {
    const drawnTo = new Array(MAX_LANES).fill(-1);
    for (let index = 0; index < this.rows.length; index++) {
      const row = this.rows[index];
      const begin = row.at ?? 0;
      if (begin > this.to || begin + (row.duration ?? 0) < this.from) {
        continue;
      }
      const lane = this.lanes[index];
      const x = Math.max(0, this.x(begin, width));
      const right = Math.min(width, Math.max(x + 2, this.x(begin + (row.duration ?? 0), width) - 0.5));
      const failed = isFailure(row);
      if (right > drawnTo[lane] + 0.5 || failed) {
        context.fillStyle = colours[failed ? "--bad" : barColour(row.kind)];
        context.fillRect(x, this.top + lane * LANE_HEIGHT, right - x, LANE_HEIGHT - 3);
        drawnTo[lane] = Math.max(drawnTo[lane], right);
      }
    }
  }

  /** Label injected faults, each above its call. @param {CanvasRenderingContext2D} context @param {number} width @param {Record<string, string>} colours */
  drawFaults(context, width, colours) {
    context.fillStyle = colours["--warn"];
    /** @type {{x: number, count: number}[]} */
    const labels = [];
    for (const row of this.faults.filter(({ at }) => at !== null && at >= this.from && at <= this.to)) {
      const x = this.x(row.at ?? 0, width);
      const lane = this.laneOf.get(row.seq) ?? 0;
      context.fillRect(x - 1, AXIS_HEIGHT + 2, 2, FAULTS_HEIGHT - 2 + lane * LANE_HEIGHT);
      const last = labels.at(-1);
      if (last && x < last.x + FAULT_WIDTH) {
        last.count++;
      } else {
        labels.push({ x, count: 1 });
      }
    }
    for (const { x, count } of labels) {
      context.fillText(count > 1 ? `${count} faults` : "fault", Math.min(x + 4, width - FAULT_WIDTH + 20), AXIS_HEIGHT + 11);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {Record<string, string>} colours */
  drawSelection(context, width, colours) {
    const index = this.rows.findIndex((row) => row.seq === this.selected);
    const row = this.rows[index];
    if (row) {
      const x = this.x(row.at ?? 0, width);
      const length = Math.max(3, this.x((row.at ?? 0) + (row.duration ?? 0), width) - x);
      context.strokeStyle = colours["--accent"];
      context.lineWidth = 2;
      context.strokeRect(x - 1, this.top + this.lanes[index] * LANE_HEIGHT - 1.5, length + 2, LANE_HEIGHT);
    }
  }

  /** @param {number} at @param {number} width */
  x(at, width) {
    return ((at - this.from) / (this.to - this.from || 1)) * width;
  }
}

/** @param {string} kind */
function barColour(kind) {
  return /** @type {Record<string, string>} */ ({ tool_call: "--bar-tool", llm_call: "--bar-model", exchange: "--bar-http" })[kind]
    ?? "--text-dim";
}

/** Return 1, 2 or 5 times a power of ten. @param {number} atLeast */
function niceStep(atLeast) {
  const power = 10 ** Math.floor(Math.log10(atLeast || 1));
  return power * ([1, 2, 5].find((factor) => factor * power >= atLeast) ?? 10);
}

/** Return a moment with as many digits as the step between two of them needs. @param {number} at @param {number} step @param {number} to */
function axisLabel(at, step, to) {
  const [unit, name] = UNITS.find(([size]) => to >= size) ?? [1e-6, "µs"];
  const digits = Math.min(MAX_DIGITS, Math.max(0, -Math.floor(Math.log10(step / unit))));
  return at >= 600 && step >= 1 ? duration(Math.round(at)) : `${(at / unit).toFixed(digits)} ${name}`;
}
