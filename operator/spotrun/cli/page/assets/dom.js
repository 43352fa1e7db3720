// @ts-check
/**
 * Elements without HTML: text of the cluster only ever becomes a text node or an attribute.
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an HTML element; children that are null are left out.
 * @param {string} tag
 * @param {Record<string, string | number | null | undefined | ((event: any) => void)>} [attributes]
 * @param {...(Node | string | null | undefined)} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  set(made, attributes);
  made.append(...present(children));
  return made;
}

/**
 * Make an SVG element.
 * @param {string} tag
 * @param {Record<string, string | number | null | undefined | ((event: any) => void)>} [attributes]
 * @param {...(Node | string | null | undefined)} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  const made = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  set(made, attributes);
  made.append(...present(children));
  return made;
}

/**
 * Replace the children of an element.
 * @param {Element} parent
 * @param {...(Node | string | null | undefined)} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren(...present(children));
}

/** @param {(Node | string | null | undefined)[]} children */
function present(children) {
  return /** @type {(Node | string)[]} */ (children.filter((one) => one != null && one !== ""));
}

/**
 * @param {Element} made
 * @param {Record<string, any>} attributes
 */
function set(made, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, String(value));
  }
}

/**
 * A bar that is full in part.
 * @param {number} part
 * @param {string} text
 * @param {string} kind
 */
export function meter(part, text, kind) {
  const bar = h("i", {});
  bar.style.width = `${Math.min(100, Math.max(0, part * 100))}%`;
  return h("span", { class: `meter ${kind}` }, h("span", { class: "track", "aria-hidden": "true" }, bar), h("span", {}, text));
}
