/** Documents from the server. */

import { parseExactly } from "./exact_json.js";

/** @returns {Source} */
export function serverSource() {
  return { get: fetchDocument, rows: fetchRows, post: postRequest };
}

/** The path of a run's document. @param {string} address @param {string} rest */
export function runPath(address, rest = "") {
  return `run/${encodeURIComponent(address)}${rest}`;
}

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 */
async function fetchDocument(path, signal) {
  const response = await request(path, signal);
  return parseExactly(await response.text());
}

/** @param {string} path @param {string} body */
async function postRequest(path, body) {
  const headers = { "Content-Type": "application/json" };
  return parseExactly(await (await request(path, undefined, { method: "POST", headers, body })).text());
}

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @param {RequestInit} [options]
 */
async function request(path, signal, options) {
  const response = await fetch(`api/${path}`, { ...options, signal, cache: "no-store" });
  if (!response.ok) {
    throw new Error(errorText(await response.text()) || `the server answered ${response.status}`);
  }
  return response;
}

/** Return the problem that the server names. @param {string} body */
function errorText(body) {
  try {
    const { problem = "", hint = "" } = JSON.parse(body);
    return [problem, hint].filter(Boolean).join(". ");
  } catch {
    return body.slice(0, 500);
  }
}

/**
 * @param {string} address
 * @param {(batch: RowBatch) => void} onBatch
 * @param {AbortSignal} signal
 */
async function fetchRows(address, onBatch, signal) {
  const response = await request(runPath(address, "/rows"), signal);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const part = await reader?.read();
    if (!part || part.done) {
      break;
    }
    const lines = (pending + part.value).split("\n");
    pending = lines.pop() ?? "";
    lines.filter(Boolean).forEach((line) => onBatch(JSON.parse(line)));
  }
  if (pending) {
    onBatch(JSON.parse(pending));
  }
}
