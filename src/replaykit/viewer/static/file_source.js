/** Documents from the blocks of a shared file. Each block is read when somebody looks at it. */

import { parseExactly } from "./exact_json.js";
import { findText } from "./file_search.js";

const PAUSE_BLOCKS = 20; // read without giving the browser a chance to draw

/** @returns {Source} */
export function fileSource() {
  const blocks = new SharedBlocks();
  return {
    get: (path, signal) => blocks.get(path, signal),
    rows: (address, onBatch, signal) => blocks.rows(address, onBatch, signal),
  };
}

export function isSharedFile() {
  return document.querySelector("script[data-path]") !== null;
}

class SharedBlocks {
  constructor() {
    /** @type {Map<string, HTMLElement[]>} */
    this.byPath = new Map();
    for (const block of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("script[data-path]"))) {
      const path = block.dataset.path ?? "";
      this.byPath.set(path, [...(this.byPath.get(path) ?? []), block]);
    }
  }

  /** @param {string} path @param {AbortSignal} [signal] @returns {Promise<any>} */
  async get(path, signal) {
    const [place, query = ""] = path.split("?", 2);
    const text = new URLSearchParams(query).get("text");
    if (place.endsWith("/find")) {
      return this.find(place.slice(0, -"/find".length), text ?? "", signal);
    }
    const [, parent, seq] = place.match(/^(.*\/(?:event|state))\/(\d+)$/) ?? [];
    if (parent) {
      return this.at(parent, Number(seq));
    }
    const [block] = this.byPath.get(place) ?? [];
    if (!block) {
      throw new Error("This file does not hold that. Open it with replaykit view.");
    }
    return parseExactly(block.textContent ?? "");
  }

  /** Return the document of one event. @param {string} path @param {number} seq */
  at(path, seq) {
    const block = this.byPath.get(path)?.find((item) => Number(item.dataset.from) <= seq && seq <= Number(item.dataset.to));
    const content = block ? parseExactly(block.textContent ?? "") : null;
    const found = Array.isArray(content) ? content.find((page) => page.row[0] === seq) : content;
    if (!found) {
      throw new Error(`This file does not hold event ${seq}.`);
    }
    return found;
  }

  /** @param {string} path of the run @param {string} text @param {AbortSignal} [signal] */
  async find(path, text, signal) {
    /** @type {Occurrence[]} */
    const found = [];
    for (const [index, block] of (this.byPath.get(`${path}/event`) ?? []).entries()) {
      if (index % PAUSE_BLOCKS === 0) {
        await pause();
        signal?.throwIfAborted();
      }
      if (!findText(block.textContent ?? "", text, found)) {
        break;
      }
    }
    return found;
  }

  /** @param {string} address @param {(batch: RowBatch) => void} onBatch @param {AbortSignal} signal */
  async rows(address, onBatch, signal) {
    const path = `run/${encodeURIComponent(address)}`;
    for (const [index, block] of (this.byPath.get(`${path}/rows`) ?? []).entries()) {
      if (index % PAUSE_BLOCKS === 1) {
        await pause();
        signal.throwIfAborted();
      }
      onBatch(JSON.parse(block.textContent ?? ""));
    }
    onBatch({ page: await this.get(path) });
  }
}

function pause() {
  return new Promise((resume) => setTimeout(resume, 0));
}
