/** Below the waterfall: what binds the plan, or what it lacks, and three neighbours that were really estimated. */
import { tryPlan } from "../../actions.js";
import { measured, quantity, seconds, bytes } from "../../format.js";
import { doubtOf } from "../../measured.js";
import { tokenOfKey } from "../../figures/base.js";
import { priceOf } from "../../sides.js";
import { same } from "../../scenario.js";
import { state } from "../../state.js";
import { wordOf } from "../../words.js";
import { h, put } from "../common/dom.js";
import { usdPerHour } from "./strip.js";

const MOST = 3;
const MOST_CHANGES = 3;
/** Letters of a name that one line has room for, the less of them the larger. */
const ONE_LINE = 43;
const LONG_NAME = 34;

/** @param {import("../../types.js").Change} change */
function changeWords({ field, before, after }) {
  const name = field.slice(field.indexOf(".") + 1);
  return typeof after === "number"
    ? `${name.replaceAll("_", " ")} ${before} → ${after}`
    : wordOf(name, after, state.catalog.fields);
}

/** @param {import("../../types.js").Change[]} changes */
function remedyWords(changes) {
  const words = changes.map(changeWords);
  const shown = (/** @type {number} */ many) =>
    words.slice(0, many).join(" · ") + (words.length > many ? ` +${words.length - many}` : "");
  let many = Math.min(MOST_CHANGES, words.length);
  while (many > 1 && shown(many).length > ONE_LINE) many -= 1;
  const text = shown(many);
  return { text: /^[tcpe]p /.test(text) ? text : text[0].toUpperCase() + text.slice(1), all: words.join(", ") };
}

/** @param {number} value @param {(size: number) => string} write */
const signed = (value, write) => `${value < 0 ? "−" : "+"}${write(Math.abs(value))}`;

export function createRemedies() {
  const title = h("span");
  const binds = h("b");
  const list = h("ul", { "aria-label": "Faster plans" });
  const element = h(
    "section",
    { class: "card remedies", "aria-label": "Remedies" },
    h("p", { class: "binds" }, title, binds),
    list,
  );

  /** Where no plan is edited, what binds a program's own ops, in the words of its estimate. @param {string} words */
  function tellOwn(words) {
    element.hidden = !words;
    element.classList.remove("stale");
    put(title, "Binds");
    put(binds, "");
    list.replaceChildren(h("li", { class: "empty", text: words }));
  }

  function update() {
    const { remedies, estimate, estimated, problems, drag, pair, measurement } = state;
    const own = pair && !pair.edited && [pair.a, pair.b].some((side) => side?.own);
    element.classList.toggle("own", Boolean(own));
    if (own) return tellOwn(measurement?.expected?.estimate.limits ?? "");
    // what is faster by peaks that nobody knows says nothing
    const doubted = Boolean(estimated && doubtOf(estimated, state.catalog));
    element.hidden = !pair?.edited || (problems.length > 0 && !estimate) || doubted;
    const found = remedies && estimated && same(remedies.scenario, estimated) && !problems.length ? remedies : null;
    element.classList.toggle("stale", !found || Boolean(drag));
    if (!found || !estimate) {
      if (!list.children.length)
        list.replaceChildren(h("li", { class: "empty", text: "Estimating neighbouring plans …" }));
      return;
    }
    const lacking = found.over_bytes > 0;
    const name = state.catalog.categories.find(({ key }) => key === found.binds)?.label ?? found.binds;
    put(title, lacking ? "Makes it fit" : found.waits ? "Binds: the chip waits" : "Binds");
    put(binds, lacking ? `${bytes(found.over_bytes)} too much` : `${name} ${seconds(found.binds_s)}`);
    binds.title = lacking ? "" : estimate.limits;
    const { usd } = usdPerHour();
    const line = (/** @type {import("../../types.js").RemedyFound} */ one) => {
      const words = remedyWords(one.changes);
      const saved_s = estimate.step_time_s - one.step_time_s;
      const tokens = one.tokens_per_s * one.step_time_s;
      const cost = (/** @type {number} */ step_s) =>
        priceOf({ .../** @type {any} */ ({}), step_s, chips: estimate.chips, tokens }, usd)?.million_usd ?? null;
      const [before, after] = [cost(estimate.step_time_s), cost(one.step_time_s)];
      const cents = (/** @type {number} */ value) => `${measured(100 * value, 2)} ¢`;
      const numbers = lacking
        ? [
            h("b", { text: seconds(one.step_time_s) }),
            h("span", { text: `${bytes(one.reserved_bytes)} reserved` }),
            after !== null && h("span", { text: cents(after) }),
          ]
        : [
            h("b", { text: signed(-saved_s, seconds) }),
            h("span", {
              text: signed(one.peak_bytes - estimate.memory.peak_bytes, (size) => quantity(size, "bytes", 2)),
            }),
            after !== null && before !== null && h("span", { text: signed(after - before, cents) }),
          ];
      const share = lacking ? one.reserved_bytes / estimate.memory.capacity_bytes : saved_s / estimate.step_time_s;
      return h(
        "li",
        {
          class: "remedy",
          title: `${words.all}: ${quantity(one.step_time_s, "s", 6)}, ${quantity(one.peak_bytes, "bytes", 6)} at the peak, ${quantity(one.reserved_bytes, "bytes", 6)} reserved`,
        },
        h("h3", { text: words.text, class: words.text.length > LONG_NAME && "long" }),
        h("p", {}, numbers),
        h(
          "span",
          { class: "gain", "aria-hidden": true },
          h("i", {
            style: {
              width: `${Math.min(100, Math.max(3, 100 * share))}%`,
              background: lacking ? "var(--ink-3)" : `var(--${tokenOfKey(state.catalog.categories, one.saves)})`,
            },
          }),
        ),
        h("button", {
          type: "button",
          class: "try",
          text: "Try",
          "aria-label": `Try ${words.all}`,
          onclick: () => tryPlan(one.scenario),
        }),
      );
    };
    const best = found.best.slice(0, MOST);
    const none = lacking
      ? "No neighbouring plan fits: take more chips, or chips with more memory."
      : `None of ${found.tried} neighbouring plans is faster by 1 %.`;
    const rest = `best of ${found.tried} neighbouring plans`;
    list.replaceChildren(
      ...best.map(line),
      ...(best.length < MOST
        ? [h("li", { class: best.length ? "empty rest" : "empty", text: best.length ? rest : none })]
        : []),
    );
  }
  return { element, update };
}
