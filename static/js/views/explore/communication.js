/** Communication: every collective of the step, its time and what of that is exposed; and which rank sends to which. */
import { bytes, percent, seconds, significant } from "../../format.js";
import { categoryIn, words } from "../../figures/base.js";
import { isOfRanks, isPlaced, planOf, rankMatrix } from "../../figures/rankMatrix.js";
import { state } from "../../state.js";
import { colour, h, narrow, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { createTableSave } from "../common/save.js";
import { createScroller } from "../common/scroller.js";
import { grid } from "../common/table.js";

/**
 * The ranks that take part, and what they share. Ranks of dp and of cp hold the same parameters, so that both sum
 * their gradients in one group; copies stay on the chip.
 * @param {import("../../types.js").Collective} collective @returns {[text: string, title?: string]}
 */
function over({ kind, axis, ranks }) {
  const { dp = 1, cp = 1 } = state.estimated?.plan ?? {};
  const size = significant(ranks, 6);
  if (isOfRanks(axis)) return [axis, "which axis of a plan it is, the program's ops do not say"];
  if (kind === "copy") return ["–", "on the chip itself"];
  if (axis === "dp" && cp > 1) return [`dp·cp ${size}`, `dp ${dp} × cp ${cp}: ranks of both hold the same parameters`];
  return [`${axis} ${size}`, state.catalog.axes.find(({ key }) => key === axis)?.label];
}

/** @param {{name: () => string}} options */
export function createCommunication({ name }) {
  /** @type {import("../../types.js").Collective[]} */
  let now = [];
  const sub = h("span", { class: "sub" });
  const box = createScroller("Communication");
  const keys = /** @type {const} */ (["name", "kind", "axis", "ranks", "bytes", "count", "seconds", "exposed_s"]);
  const save = createTableSave({
    title: "Communication",
    name: () => `${name()}-communication`,
    tables: () => [{ columns: keys.map((title) => ({ title })), rows: now.map((one) => keys.map((key) => one[key])) }],
  });
  const matrix = new FigureCard({ id: "rank-matrix", title: "Rank to rank", height: 340, span: "", name });
  const card = h(
    "section",
    { class: "card", id: "communication" },
    h("header", {}, h("h3", { text: "Communication" }), sub, h("span", { class: "acts" }, save)),
    box.element,
  );
  const element = h("div", { class: "beside" }, card, matrix.element);

  /** @param {import("../../types.js").Estimate} estimate */
  function update({ collectives, step_time_s, chips }) {
    now = collectives;
    const exposed_s = collectives.reduce((sum, one) => sum + one.exposed_s, 0);
    const sent = collectives.filter(({ kind, ranks }) => kind !== "copy" && ranks > 1);
    const placed = sent.filter((one) => isPlaced(one, chips));
    const said = [
      collectives.length && `${seconds(exposed_s)} exposed, ${percent(exposed_s / step_time_s)} of the step`,
      placed.length < sent.length && "which ranks meet is not recorded",
    ];
    sub.textContent = said.filter(Boolean).join("; ");
    const { plan: shown, cluster } = state.estimated ?? state.scenario;
    const plan = planOf(shown, chips);
    matrix.element.hidden = !placed.length;
    if (!matrix.element.hidden)
      matrix.later(() => {
        const figure = rankMatrix({
          collectives,
          plan,
          per_node: cluster.chips_per_node,
          axes: state.catalog.axes,
          colour,
          narrow: narrow(),
        });
        put(matrix.sub, figure.said ?? "");
        matrix.explain(figure.legend ?? []);
        return figure;
      });
    if (!collectives.length) {
      box.fill(
        h("p", { class: "empty", text: chips === 1 ? "One chip: nothing to send." : "This plan sends nothing." }),
      );
      return;
    }
    const wanted = state.selected.split(" ")[1] ?? "";
    const sends = categoryIn(state.selected, state.catalog.categories) === state.catalog.sends;
    box.fill(
      grid(
        ["collective", "over", "each", "calls", "time", "exposed"],
        collectives.map((one) => {
          const [text, title] = over(one);
          const marked = one.axis === wanted || (!wanted && sends);
          return h(
            "tr",
            { class: state.selected && (marked ? "marked" : "muted") },
            h(
              "td",
              { class: "wrap" },
              words(one.name || one.kind),
              one.name && one.name !== one.kind ? h("small", { text: words(one.kind) }) : null,
            ),
            h("td", { text, title }),
            h("td", { text: bytes(one.bytes) }),
            h("td", { text: significant(Number(one.count.toPrecision(6)), 6) }),
            h("td", { text: seconds(one.seconds) }),
            h("td", { text: one.exposed_s ? seconds(one.exposed_s) : "hidden" }),
          );
        }),
      ),
    );
  }
  return { element, update };
}
