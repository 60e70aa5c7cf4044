/** A model's conversation: new messages are open, those that an earlier request had already are folded. */

import { el, fold } from "./dom.js";
import { counted } from "./format.js";
import { jsonTree } from "./json_tree.js";
import { longText } from "./long_text.js";

/**
 * @param {ConversationMessage[]} messages
 * @param {import("./json_tree.js").TreeOptions} options
 */
export function conversation(messages, options) {
  const box = el("div", { class: "conversation" });
  let index = 0;
  while (index < messages.length) {
    const begin = index;
    while (index < messages.length && !messages[index].is_new) {
      index++;
    }
    if (index > begin) {
      box.append(repeatedMessages(messages, begin, index, options));
    }
    for (; index < messages.length && messages[index].is_new; index++) {
      box.append(conversationMessage(messages[index], `${options.path}[${index}]`, options));
    }
  }
  return box;
}

/**
 * @param {ConversationMessage[]} messages
 * @param {number} begin
 * @param {number} end
 * @param {import("./json_tree.js").TreeOptions} options
 */
function repeatedMessages(messages, begin, end, options) {
  const holdsPicked = messages
    .slice(begin, end)
    .some((_, offset) => options.picked?.startsWith(`${options.path}[${begin + offset}]`));
  return fold(
    [counted(end - begin, "earlier message")],
    () => messages.slice(begin, end).map((message, offset) =>
      conversationMessage(message, `${options.path}[${begin + offset}]`, options)),
    holdsPicked,
    "repeated",
  );
}

/**
 * @param {ConversationMessage} message
 * @param {string} path
 * @param {import("./json_tree.js").TreeOptions} options
 */
function conversationMessage(message, path, options) {
  return el(
    "div",
    { class: `message role-${["user", "assistant", "system", "tool", "answer"].find((role) => role === message.role) ?? "other"}` },
    el("div", { class: "role" }, message.role),
    el("div", { class: "parts" },
      ...message.parts.map((part, index) => conversationPart(part, `${path}.parts[${index}]`, options))),
  );
}

/**
 * @param {ConversationPart} part
 * @param {string} path
 * @param {import("./json_tree.js").TreeOptions} options
 */
function conversationPart(part, path, options) {
  const isPicked = options.picked === `${path}.text`;
  const text = part.text ? longText(part.text, isPicked ? "prose picked" : "prose") : null;
  const value = "value" in part && jsonTree(part.value, { ...options, path: `${path}.value` });
  if (part.kind === "text") {
    return text ?? el("div", { class: "dim" }, "(empty)");
  }
  const toolResult = part.name ? "result of" : "result"; // not every API repeats the name of the tool
  const label = { tool_call: "calls", tool_result: toolResult, reasoning: "reasoning" }[part.kind] ?? part.kind;
  return el(
    "div",
    { class: `part part-${part.kind === "tool_call" || part.kind === "tool_result" ? "tool" : "other"}` },
    el("div", { class: "part-label" }, label, " ", part.name && el("span", { class: "data strong" }, part.name)),
    text,
    value,
  );
}
