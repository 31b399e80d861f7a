/** Elements from plain calls. Text is always a text node; nothing here or elsewhere parses markup. */

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {Record<string, any>} [props]  attributes; on… listeners; "text" sets textContent
 * @param {...(Child | Child[])} children @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter(isNode).map(String_));
  return element;
}

/** @param {Child} child @returns {child is Node | string | number} */
const isNode = (child) => child !== null && child !== undefined && child !== false;
/** @param {Node | string | number} child */
const String_ = (child) => (child instanceof Node ? child : String(child));

/** @param {string} name @returns {SVGElement} */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = /** @type {SVGElement} */ (document.createElementNS(space, "svg"));
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(space, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** Set text only where it changes, so that a frame touches little. @param {Element} element @param {string} text */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Give an element these children in this order; what is in its place already is not touched, and keeps its focus.
 * @param {Element} parent @param {Element[]} children
 */
export function arrange(parent, children) {
  const wanted = new Set(children);
  for (const one of [...parent.children]) if (!wanted.has(one)) one.remove();
  children.forEach((one, at) => {
    if (parent.children[at] !== one) parent.insertBefore(one, parent.children[at] ?? null);
  });
}

/** A name with the places where it may break: behind its dots, underscores, colons and brackets. @param {string} name */
export const breakable = (name) =>
  name.split(/(?<=[._:<(,/-])(?=[^.:])/).flatMap((part, at) => (at ? [h("wbr"), part] : [part]));

/** A little square of a category's colour. @param {string} token */
export const swatch = (token) => h("span", { class: "swatch", style: { background: `var(--${token})` } });

/** What stands between a thing that was scrolled to and the edge, so that what follows shows that it is there. */
const SIGHT_PX = 24;

/**
 * Scroll a row so that its chosen child can be seen, now and whenever the row has another width.
 * @param {HTMLElement} row @param {string} chosen  selector @returns {() => void} does so after another was chosen
 */
export function keepInSight(row, chosen) {
  function show() {
    const one = row.querySelector(chosen)?.getBoundingClientRect();
    const box = row.getBoundingClientRect();
    if (!one || !box.width) return;
    if (one.left < box.left) row.scrollLeft -= box.left - one.left + SIGHT_PX;
    else if (one.right > box.right) row.scrollLeft += one.right - box.right + SIGHT_PX;
  }
  new ResizeObserver(show).observe(row);
  return show;
}

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/** @param {string} name @param {string | Blob} content @param {string} [type] */
export function download(name, content, type = "text/csv") {
  const link = h("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Say something to people who listen rather than look. @param {string} text */
export const announce = (text) => put(byId("live"), text);

const narrowQuery = matchMedia("(max-width: 600px)");
export const narrow = () => narrowQuery.matches;

/** @type {Map<string, string>} */
const colours = new Map();
document.addEventListener("themechange", () => colours.clear());
/** The value of a design token in the current theme. @param {string} name */
export function colour(name) {
  let value = colours.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    colours.set(name, value);
  }
  return value;
}
