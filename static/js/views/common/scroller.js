/**
 * Boxes for tables that may be larger than their card: an edge fades where more is hidden behind it (scroller.css), and
 * the keyboard reaches a box that scrolls.
 */
import { h } from "./dom.js";

const SLACK_PX = 1; // sizes are fractions, scroll positions are not

/**
 * @param {string} label  what is in the box
 * @param {string} [kind]  further classes: "tall" limits its height
 */
export function createScroller(label, kind = "") {
  const box = h("div", { class: `scroll ${kind}`, "aria-label": label });
  const element = h("div", { class: "scroller" }, box);

  function look() {
    const across = box.scrollWidth - box.clientWidth;
    const down = box.scrollHeight - box.clientHeight;
    const scrolls = across > SLACK_PX || down > SLACK_PX;
    element.classList.toggle("more-left", box.scrollLeft > SLACK_PX);
    element.classList.toggle("more-right", across - box.scrollLeft > SLACK_PX);
    element.classList.toggle("more-down", down - box.scrollTop > SLACK_PX);
    // the fade stands beside scroll bars, not over them
    element.style.setProperty("--bar-right", `${box.offsetWidth - box.clientWidth}px`);
    element.style.setProperty("--bar-below", `${box.offsetHeight - box.clientHeight}px`);
    if (scrolls === box.hasAttribute("tabindex")) return;
    if (scrolls) {
      box.setAttribute("tabindex", "0");
      box.setAttribute("role", "region");
    } else {
      box.removeAttribute("tabindex");
      box.removeAttribute("role");
    }
  }
  box.addEventListener("scroll", look, { passive: true });
  const sizes = new ResizeObserver(look);

  /** Show this instead of what is there. @param {...Node} content */
  function fill(...content) {
    sizes.disconnect();
    box.replaceChildren(...content);
    for (const one of [box, ...box.querySelectorAll("table")]) sizes.observe(one);
  }
  fill();
  return { element, box, fill };
}
