/** A list that draws only the rows on screen. The selected row is its active descendant. */

import { el } from "./dom.js";

const SPARE_ROWS = 6;

export class VirtualList {
  /**
   * @param {{label: string, draw: (index: number) => HTMLElement, onSelect: (index: number) => void,
   *   rowHeight: (width: number) => number}} options
   */
  constructor(options) {
    this.options = options;
    this.count = 0;
    this.selected = -1;
    this.rowHeight = options.rowHeight(0);
    /** @type {Map<number, HTMLElement>} */
    this.drawn = new Map();
    this.body = el("div", { class: "list-body", role: "presentation" });
    this.element = el(
      "div",
      { class: "list", role: "listbox", "aria-label": options.label, tabindex: 0, scroll: () => this.update() },
      this.body,
    );
    this.element.addEventListener("click", (event) => this.click(event));
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.element);
  }

  close() {
    this.observer.disconnect();
  }

  /** @param {MouseEvent} event */
  click(event) {
    const row = event.target instanceof Element ? event.target.closest("[data-index]") : null;
    if (row instanceof HTMLElement) {
      this.options.onSelect(Number(row.dataset.index));
    }
  }

  resize() {
    const height = this.options.rowHeight(this.element.clientWidth);
    const first = this.element.scrollTop / this.rowHeight;
    const isOther = height !== this.rowHeight;
    this.rowHeight = height;
    this.redraw();
    if (isOther) {
      this.element.scrollTop = first * height;
    }
    this.update();
  }

  get isAtEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    return scrollTop + clientHeight >= scrollHeight - this.rowHeight;
  }

  /** The rows are others. @param {number} [count] */
  redraw(count = this.count) {
    this.count = count;
    this.drawn.forEach((row) => row.remove());
    this.drawn.clear();
    this.update();
  }

  /** Select a row and bring it into view. @param {number} index */
  select(index) {
    this.selected = index;
    this.drawn.forEach((row, other) => row.setAttribute("aria-selected", String(other === index)));
    if (index >= 0) {
      this.show(index);
    }
    this.update();
  }

  /** @param {number} index */
  show(index) {
    const top = index * this.rowHeight;
    const { scrollTop, clientHeight } = this.element;
    const margin = Math.min(2 * this.rowHeight, clientHeight / 3);
    if (top < scrollTop || top > scrollTop + clientHeight + 20 * this.rowHeight) {
      this.element.scrollTop = top - clientHeight / 3;
    } else if (top + this.rowHeight + margin > scrollTop + clientHeight) {
      this.element.scrollTop = top + this.rowHeight + margin - clientHeight;
    }
  }

  update() {
    this.body.style.height = `${this.count * this.rowHeight}px`;
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - SPARE_ROWS);
    const end = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + SPARE_ROWS);
    for (const [index, row] of this.drawn) {
      if (index < first || index >= end) {
        row.remove();
        this.drawn.delete(index);
      }
    }
    for (let index = first; index < end; index++) {
      this.drawOnce(index);
    }
    const active = this.drawn.get(this.selected);
    if (active) {
      this.element.setAttribute("aria-activedescendant", active.id);
    } else {
      this.element.removeAttribute("aria-activedescendant");
    }
  }

  /** @param {number} index */
  drawOnce(index) {
    const known = this.drawn.get(index);
    if (known) {
      known.setAttribute("aria-setsize", String(this.count));
      return;
    }
    const row = this.options.draw(index);
    row.id = `row-${index}`;
    row.dataset.index = String(index);
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(index === this.selected));
    row.setAttribute("aria-posinset", String(index + 1));
    row.setAttribute("aria-setsize", String(this.count));
    row.style.top = `${index * this.rowHeight}px`;
    row.style.height = `${this.rowHeight}px`;
    this.drawn.set(index, row);
    this.body.append(row);
  }
}
