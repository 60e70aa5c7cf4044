/** The value at a path inside a document. */

import { isContainer, memberPath } from "./exact_json.js";

/** @param {Json} document @param {string} path @returns {Json} */
export function valueAt(document, path) {
  let value = document;
  let place = "$";
  while (place !== path && isContainer(value)) {
    const container = value;
    const key = Object.keys(container).find((name) => leadsDown(childPath(container, place, name), path));
    if (key === undefined) {
      return "";
    }
    place = childPath(container, place, key);
    value = container[key];
  }
  return value;
}

/** @param {Record<string, Json>} container @param {string} place @param {string} key */
function childPath(container, place, key) {
  return memberPath(place, Array.isArray(container) ? Number(key) : key);
}

/** True if the place is the path itself, or above it. @param {string} place @param {string} path */
export function leadsDown(place, path) {
  return path.startsWith(place) && ["", ".", "["].includes(path.charAt(place.length));
}
