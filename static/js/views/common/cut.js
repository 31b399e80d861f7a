/** What is cut off tells the whole under the mouse, where nothing else does. */

const CUT = ".sub, .chosen, .name, .extra";

/** @param {PointerEvent} event */
function tell({ target }) {
  const one = target instanceof Element ? target.closest(CUT) : null;
  if (!(one instanceof HTMLElement) || (one.title && !one.dataset.cut)) return;
  const cut = one.scrollWidth > one.clientWidth;
  one.title = cut ? (one.textContent ?? "") : "";
  one.dataset.cut = cut ? "yes" : "";
}

export const tellCuts = () => addEventListener("pointerover", tell, { passive: true });
