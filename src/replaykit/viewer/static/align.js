/** Which lines or words two texts have in common. */

/** @typedef {{kind: "same" | "old" | "new", items: string[]}} Stretch */

const MAX_CELLS = 2_000_000; // of the table of common lengths

/**
 * Align two lists: the longest common part of what is between their common beginning and end.
 * @param {string[]} old
 * @param {string[]} current
 * @returns {Stretch[]}
 */
export function align(old, current) {
  let head = 0;
  while (head < old.length && head < current.length && old[head] === current[head]) {
    head++;
  }
  let tail = 0;
  while (tail < Math.min(old.length, current.length) - head && old.at(-1 - tail) === current.at(-1 - tail)) {
    tail++;
  }
  /** @type {Stretch[]} */
  const stretches = [];
  add(stretches, "same", old.slice(0, head));
  alignMiddle(stretches, old.slice(head, old.length - tail), current.slice(head, current.length - tail));
  add(stretches, "same", tail ? old.slice(-tail) : []);
  return stretches;
}

/** @param {Stretch[]} stretches @param {Stretch["kind"]} kind @param {string[]} items */
function add(stretches, kind, items) {
  const last = stretches.at(-1);
  if (last?.kind === kind) {
    last.items.push(...items);
  } else if (items.length) {
    stretches.push({ kind, items });
  }
}

/** @param {Stretch[]} stretches @param {string[]} old @param {string[]} current */
function alignMiddle(stretches, old, current) {
  if (!old.length || !current.length || old.length * current.length > MAX_CELLS) {
    add(stretches, "old", old);
    add(stretches, "new", current);
    return;
  }
  const width = current.length + 1;
  const lengths = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = current.length - 1; j >= 0; j--) {
      const cell = i * width + j;
      lengths[cell] = old[i] === current[j]
        ? lengths[cell + width + 1] + 1
        : Math.max(lengths[cell + width], lengths[cell + 1]);
    }
  }
  let [i, j] = [0, 0];
  let removed = /** @type {string[]} */ ([]);
  let added = /** @type {string[]} */ ([]);
  const flush = () => {
    add(stretches, "old", removed);
    add(stretches, "new", added);
    removed = [];
    added = [];
  };
  while (i < old.length || j < current.length) {
    const cell = i * width + j;
    if (i < old.length && j < current.length && old[i] === current[j]) {
      flush();
      add(stretches, "same", [old[i++]]);
      j++;
    } else if (j === current.length || (i < old.length && lengths[cell + width] >= lengths[cell + 1])) {
      removed.push(old[i++]);
    } else {
      added.push(current[j++]);
    }
  }
  flush();
}
