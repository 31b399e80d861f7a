/** Ways to split one model: tensor parallelism in 1 to 3 dimensions, and splits of the sequence, with cross-overs. */
import { setSplit } from "../../actions.js";
import { api, ApiError } from "../../api.js";
import { atPlace, METRICS, parallelismFigure, tokenOfWay } from "../../figures/parallelism.js";
import { labelOf, sentences } from "../../figures/splitText.js";
import { bytes, count, plural, saidTogether, seconds } from "../../format.js";
import { chipOf, describe } from "../../scenario.js";
import { state } from "../../state.js";
import { WAYS } from "../../url.js";
import { colour, h, narrow, put, swatch } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { createScroller } from "../common/scroller.js";
import { grid } from "../common/table.js";

/** @typedef {import("../../types.js").Comparison} Comparison */
/** @typedef {{ranks: number, tensor: Comparison, sequence: Comparison, assumptions: string[]}} Parallelism */

const GROUPS = [0, 2, 4, 8, 9, 16, 18, 27, 32, 64, 128, 256, 512];
const HEADS = ["way", "block", "sent", "sends' time", "weights", "activa\u00adtions"];

/** The study of them, in the list of studies. */
export const WAYS_STUDY = { name: WAYS, title: "Ways to split one model" };

export function createParallelism() {
  const name = () => "headroom";
  const sub = h("span", { class: "sub" });
  const group = h("select", {
    "aria-label": "Chips in the group",
    onchange: () => setSplit({ ranks: Number(group.value) }),
  });
  const metrics = METRICS.map(([value, text]) => ({
    value,
    element: h("button", { type: "button", text, onclick: () => setSplit({ metric: value }) }),
  }));
  const problem = h("div", { class: "notices" });
  const notes = h("ul", { class: "facts" });
  const head = h(
    "section",
    { class: "card w12", id: "ways" },
    h(
      "header",
      {},
      h("h3", { text: "Ways to split one model" }),
      sub,
      h(
        "span",
        { class: "acts" },
        h("label", { class: "group" }, "Chips ", group),
        h("span", { class: "sep" }),
        metrics.map((one) => one.element),
      ),
    ),
    problem,
    notes,
  );
  const parts = /** @type {const} */ ([
    ["tensor", "Tensor parallelism"],
    ["sequence", "Splits of the sequence"],
  ]).map(([key, title]) => {
    const about = () => sub.textContent ?? "";
    const card = new FigureCard({ id: `ways-${key}`, title, height: 310, span: "w6", name, about });
    const words = h("ul", { class: "facts crossings" });
    const table = createScroller(`${title} at the present scenario`);
    card.below.append(words, table.element);
    return { key, card, words, table };
  });
  /** @type {Parallelism | null} */
  let answer = null;
  let answered = "";
  /** @type {AbortController | null} */
  let asking = null;

  async function update() {
    if (state.view !== "studies") return;
    const { scenario, split } = state;
    const key = JSON.stringify([scenario, split.ranks]);
    for (const { value, element } of metrics) element.setAttribute("aria-pressed", String(value === split.metric));
    if (key === answered) return draw();
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    try {
      const found = await api.parallelism(scenario, split.ranks, signal);
      if (signal.aborted) return;
      [answer, answered] = [found, key];
      problem.replaceChildren();
      draw();
    } catch (error) {
      if (signal.aborted || !(error instanceof ApiError)) return;
      const text = error.problems.length ? saidTogether(error.problems) : error.message;
      problem.replaceChildren(
        h(
          "div",
          { class: "notice", role: "alert" },
          h("b", { text: "This model cannot be split so." }),
          h("span", { text }),
        ),
      );
      for (const { card } of parts) card.element.hidden = true;
    }
    return undefined;
  }

  function draw() {
    if (!answer) return;
    const { scenario, catalog, split } = state;
    const { ranks, assumptions } = answer;
    put(sub, `${describe(scenario, catalog).split(" · ")[0]}: one block on one of ${plural(ranks, "chip")}, per token`);
    group.replaceChildren(
      ...[...new Set([...GROUPS, split.ranks])].map((value) =>
        h("option", {
          value,
          text: value ? String(value) : usualGroup(),
        }),
      ),
    );
    group.value = String(split.ranks);
    notes.replaceChildren(...assumptions.map((text) => h("li", { text })));
    for (const { key, card, words, table } of parts) {
      const comparison = answer[key];
      const { seq_len } = scenario.training;
      const here = key === "tensor" ? seq_len * scenario.plan.micro_batch : seq_len;
      // Where every way is refused the card stays for the reasons in its table.
      card.element.hidden = !comparison.ways.length;
      card.plot.hidden = !comparison.curves.length;
      put(card.sub, `against ${comparison.axis}; ○ cross-over · dotted: present scenario`);
      card.explain(comparison.curves.map(({ name: way }) => [tokenOfWay(comparison, way), labelOf(comparison, way)]));
      words.replaceChildren(...sentences(comparison, split.metric).map((text) => h("li", { text })));
      table.fill(placeTable(comparison, here));
      if (comparison.curves.length)
        card.later(() => parallelismFigure({ comparison, metric: split.metric, here, colour, narrow: narrow() }));
    }
  }
  const element = h("div", { class: "w12 opened ways" }, head, ...parts.map(({ card }) => card.element));
  return { element, update, draw };
}

/** The group that is compared where none is chosen. */
function usualGroup() {
  const { scenario, catalog } = state;
  const { tp } = scenario.plan;
  if (tp > 1) return `tp of Explore (${tp})`;
  return `a whole node (${Math.max(scenario.cluster.chips_per_node, chipOf(scenario, catalog).chips_per_node ?? 1, 2)})`;
}

/** @param {Comparison} comparison @param {number} here */
function placeTable(comparison, here) {
  const rows = atPlace(comparison, here).map((one) =>
    h(
      "tr",
      { class: one.problems.length && "muted" },
      h("td", {}, swatch(tokenOfWay(comparison, one.name)), one.label),
      one.problems.length
        ? h("td", { class: "text wrap", colspan: HEADS.length - 1, text: saidTogether(one.problems) })
        : [
            h("td", { text: seconds(one.block_s) }),
            h("td", { text: bytes(one.communication_bytes) }),
            h("td", { text: seconds(one.communication_s) }),
            h("td", { text: bytes(one.weights_bytes) }),
            h("td", { text: bytes(one.activations_bytes) }),
          ],
    ),
  );
  const table = grid(HEADS, rows);
  table.prepend(
    h("caption", {
      text: `At ${count(here)} ${comparison.axis === "sequence length" ? "tokens a sequence" : "tokens"}`,
    }),
  );
  return table;
}
