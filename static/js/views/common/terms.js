/** Terms explain themselves: a card beside the heading or label that the pointer or the focus rests on; and all in a list. */
import { axesOf, termOf, termsWith } from "../../glossary.js";
import { state } from "../../state.js";
import { createDialog } from "./dialogs.js";
import { h } from "./dom.js";

const REST_MS = 350;
const GAP_PX = 6;
/** What may be a term: headings, labels, names. */
const WORDS = "th, dt span, h2, h3, label, legend span, .legend span, .causes .name, .causes .how, [role=tab]";

/** @param {import("../../glossary.js").Term} term */
const parts = ({ says, formula, source }) => [
  h("p", { text: says }),
  formula ? h("p", { class: "formula", text: formula }) : null,
  source ? h("p", { class: "quiet", text: source }) : null,
];

const terms = () => termsWith(state.catalog.categories, state.catalog.phases, axesOf(state.catalog.axes));

/** @param {EventTarget | null} target */
function found(target) {
  const element = target instanceof Element ? target.closest(WORDS) : null;
  const term = element && termOf(element.textContent ?? "", terms());
  return element && term ? { element, term } : null;
}

export function explainTerms() {
  const card = h("div", { class: "term", role: "tooltip", id: "term", hidden: true });
  document.body.append(card);
  let timer = 0;
  /** @type {Element | null} */
  let shown = null;
  let before = ""; // what described it already

  function hide() {
    clearTimeout(timer);
    if (before) shown?.setAttribute("aria-describedby", before);
    else shown?.removeAttribute("aria-describedby");
    shown = null;
    card.hidden = true;
  }
  /** @param {Element} element @param {import("../../glossary.js").Term} term */
  function show(element, term) {
    shown = element;
    before = element.getAttribute("aria-describedby") ?? "";
    element.setAttribute("aria-describedby", `${before} term`.trim());
    card.replaceChildren(h("b", { text: term.name }), ...parts(term).filter((one) => one !== null));
    card.hidden = false;
    const at = element.getBoundingClientRect();
    const own = card.getBoundingClientRect();
    const below = at.bottom + GAP_PX + own.height < innerHeight || at.top < own.height + GAP_PX;
    card.style.left = `${Math.max(GAP_PX, Math.min(at.left, innerWidth - own.width - GAP_PX))}px`;
    card.style.top = `${below ? at.bottom + GAP_PX : at.top - own.height - GAP_PX}px`;
  }
  /** @param {Event} event */
  function come({ target }) {
    const one = found(target);
    if (one?.element === shown) return;
    hide();
    if (!one) return;
    one.element.classList.add("is-term");
    timer = window.setTimeout(() => one.element.isConnected && show(one.element, one.term), REST_MS);
  }
  document.addEventListener("pointerover", come);
  document.addEventListener("focusin", come);
  document.addEventListener("focusout", hide);
  addEventListener("scroll", hide, { passive: true, capture: true });
  addEventListener("pointerdown", hide);
  addEventListener("keydown", ({ key }) => key === "Escape" && hide());
}

/** All terms in a dialog, made when it is asked for first: the page's first figures need not wait for it. */
export function createGlossary() {
  /** @type {HTMLDialogElement | null} */
  let dialog = null;
  const all = () => terms().flatMap((term) => [h("dt", { text: term.name }), h("dd", {}, parts(term))]);
  return {
    showModal() {
      dialog ??= createDialog("Terms", [h("dl", { class: "glossary" }, all())]);
      dialog.showModal();
    },
  };
}
