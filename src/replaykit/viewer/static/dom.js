/** The only place that makes nodes. Text becomes text, never markup, and hidden characters are spelled out. */

import { visible } from "./visible.js";

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Properties */

/**
 * Make an element. A property that is a function listens to the event of that name; others become attributes.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties | null} [properties]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    setProperty(element, name, value);
  }
  append(element, children);
  return element;
}

/**
 * @param {HTMLElement} element
 * @param {string} name
 * @param {Properties[string]} value
 */
function setProperty(element, name, value) {
  if (typeof value === "function") {
    element.addEventListener(name, value);
  } else if (value === true) {
    element.setAttribute(name, "");
  } else if (value !== false && value !== null && value !== undefined) {
    if (name === "href" && !String(value).startsWith("#")) {
      throw new Error("links lead to places of this page only");
    }
    element.setAttribute(name, visible(String(value)));
  }
}

/**
 * @param {Node} parent
 * @param {Child[]} children
 */
export function append(parent, children) {
  for (const child of children) {
    if (child instanceof Node) {
      parent.appendChild(child);
    } else if (child !== null && child !== undefined && child !== false) {
      parent.appendChild(document.createTextNode(visible(String(child))));
    }
  }
}

/**
 * Replace what an element holds.
 * @param {Element} parent
 * @param {...Child} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/**
 * @param {string} label
 * @param {() => void} onClick
 * @param {Properties} [properties]
 */
export function button(label, onClick, properties) {
  return el("button", { type: "button", click: onClick, ...properties }, label);
}

/**
 * A section that folds. Its content is made when it is opened for the first time.
 * @param {Child | Child[]} summary
 * @param {() => Child[]} content
 * @param {boolean} [open]
 * @param {string} [className]
 */
export function fold(summary, content, open = false, className = "") {
  const body = el("div", { class: "fold-body" });
  const details = el("details", { class: className }, el("summary", null, ...[summary].flat()), body);
  let isFilled = false;
  const fillOnce = () => {
    if (!isFilled) {
      isFilled = true;
      append(body, content());
    }
  };
  if (open) {
    details.open = true;
    fillOnce();
  }
  details.addEventListener("toggle", fillOnce, { once: true });
  return details;
}

/** Say something to screen readers. @param {string} text */
export function announce(text) {
  const region = document.getElementById("announcements");
  if (region) {
    fill(region, text);
  }
}
