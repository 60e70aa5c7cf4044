/** The part of the address behind `#`. */

/** @param {string} hash @returns {Route} */
export function readRoute(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view = "", ...parts] = path.split("/").filter(Boolean).map(decoded);
  const place = new URLSearchParams(query).get("path") ?? "";
  const names = view === "compare" ? parts.slice(0, 2) : parts.slice(0, 1);
  const number = parts[names.length] ?? "";
  return { view, names, seq: /^\d+$/.test(number) ? Number(number) : null, path: place };
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Return the address of the run that a route shows. @param {Route} route */
export function addressOf(route) {
  return route.view === "run" ? route.names[0] ?? "" : `${route.view}:${route.names[0] ?? ""}`;
}

/** @param {string} address @param {number | null} [seq] @param {string} [path] */
export function runRoute(address, seq = null, path = "") {
  const [, view = "run", name = address] = address.match(/^(replay|case):(.*)$/s) ?? [];
  const place = seq === null ? "" : `/${seq}`;
  const query = path ? `?path=${encodeURIComponent(path)}` : "";
  return `#/${view}/${encodeURIComponent(name)}${place}${query}`;
}

/** @param {string} name @param {number | null} [index] of an item */
export function suiteRoute(name, index = null) {
  return `#/suite/${encodeURIComponent(name)}${index === null ? "" : `/${index}`}`;
}

/** @param {string} a @param {string} b */
export function compareRoute(a, b) {
  return `#/compare/${encodeURIComponent(a)}/${encodeURIComponent(b)}`;
}
