/** The tour: a minute through the page, one place after another, each named beside it. It begins where a person asks for it. */
import { show } from "../../actions.js";
import { announce, h } from "./dom.js";

/** @type {{at: string, title: string, says: string}[]} */
const STOPS = [
  {
    at: "#ab",
    title: "A and B",
    says: "Two steps are set against each other: hatched is predicted, solid is measured. Click one to choose another plan, run or upload; X swaps.",
  },
  {
    at: "dl.strip",
    title: "Five numbers",
    says: "A → B. The band is the 80 % interval of a prediction. The price of a chip-hour can be changed.",
  },
  {
    at: "#step-time",
    title: "Where the difference goes",
    says: "The bars go from A to B, cause by cause, and add up exactly. Click one: the figures below show only that.",
  },
  { at: ".remedies", title: "What would be faster", says: "Neighbouring plans, really estimated. Try puts one in B." },
  {
    at: '.panel [data-field="plan.tp"]',
    title: "Any plan",
    says: "Each slider shows its whole axis: line for speed, area for memory. The plan that you leave stays as A.",
  },
  {
    at: "#roofline",
    title: "Roofline and timeline",
    says: "Every op against the limits of its chip, and the step over time.",
  },
  {
    at: "#import",
    title: "Your own",
    says: "Drop a profiler trace, a log or a table anywhere, or measure on this machine in Runs. It becomes B, beside its own prediction.",
  },
];
const GAP_PX = 10;

/** @param {() => Promise<void>} explore  makes the page that it goes through */
export function createTour(explore) {
  let at = 0;
  const title = h("b", { id: "tour-title" });
  const words = h("p");
  const place = h("span", { class: "quiet" });
  const button = (/** @type {string} */ text, /** @type {() => void} */ act, kind = "ghost") =>
    h("button", { type: "button", class: kind, text, onclick: act });
  const back = button("Back", () => go(at - 1));
  const next = button("Next", () => go(at + 1), "primary");
  const card = h(
    "div",
    { class: "tour", role: "dialog", "aria-labelledby": "tour-title", hidden: true },
    title,
    words,
    h("div", { class: "row" }, place, back, button("End", end), next),
  );
  document.body.append(card);
  /** @type {Element | null} */
  let marked = null;

  const unmark = () => marked?.classList.remove("toured");
  function end() {
    unmark();
    card.hidden = true;
  }
  const seen = (/** @type {Element | null} */ one) => one !== null && one.getClientRects().length > 0;

  /** @param {number} to */
  function go(to) {
    const way = to < at ? -1 : 1;
    let next_ = to;
    // what a narrow page keeps in its sheet is passed over
    while (STOPS[next_] && !seen(document.querySelector(STOPS[next_].at))) next_ += way;
    const stop = STOPS[next_];
    if (!stop) return way > 0 ? end() : undefined;
    at = next_;
    unmark();
    marked = document.querySelector(stop.at);
    marked?.classList.add("toured");
    marked?.scrollIntoView({ block: "nearest" });
    title.textContent = stop.title;
    words.textContent = stop.says;
    place.textContent = `${at + 1} of ${STOPS.length}`;
    back.disabled = at === 0;
    next.textContent = at === STOPS.length - 1 ? "Done" : "Next";
    card.hidden = false;
    stand();
    next.focus();
    announce(`${stop.title}. ${stop.says}`);
    return undefined;
  }

  function stand() {
    if (card.hidden || !marked) return;
    const there = marked.getBoundingClientRect();
    const own = card.getBoundingClientRect();
    const right = there.right + GAP_PX + own.width < innerWidth && there.height > own.height / 2 && there.width < 400;
    const below = there.bottom + GAP_PX + own.height < innerHeight;
    const left = right ? there.right + GAP_PX : there.left;
    const top = right ? there.top : below ? there.bottom + GAP_PX : there.top - own.height - GAP_PX;
    card.style.left = `${Math.max(GAP_PX, Math.min(left, innerWidth - own.width - GAP_PX))}px`;
    card.style.top = `${Math.max(GAP_PX, Math.min(top, innerHeight - own.height - GAP_PX))}px`;
  }
  addEventListener("resize", stand);
  addEventListener("scroll", stand, { passive: true });
  card.addEventListener("keydown", (event) => {
    if (event.key === "Escape") end();
    if (event.key === "ArrowRight") go(at + 1);
    if (event.key === "ArrowLeft") go(at - 1);
  });
  return {
    start: async () => {
      show("explore");
      await explore();
      at = 0;
      requestAnimationFrame(() => go(0));
    },
  };
}
