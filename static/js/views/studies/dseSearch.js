/** Search of the power split: started by a person, drawn as the way to the best split, dimmed once inputs move on. */
import { api } from "../../api.js";
import { SERIES } from "../../figures/base.js";
import { powerPath, shareWord } from "../../figures/power.js";
import { colour, h } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { trying } from "../common/toast.js";

/** @param {{name: () => string}} options */
export function createPathSearch({ name }) {
  const find = h("button", { type: "button", text: "Find the best split", onclick: () => void trying(search()) });
  const actions = [find];
  const card = new FigureCard({
    id: "path-search",
    title: "Search of the power split",
    height: 0,
    span: "",
    actions,
    name,
  });
  card.plot.classList.remove("skeleton");
  card.legend.append("Differential evolution over the four shares of a chip; the way to the best split is drawn here.");
  /** @type {Record<string, string>} */
  let settings = {};
  /** @type {import("../../figures/power.js").Search | null} */
  let found = null;
  let searched = ""; // inputs of that search

  async function search() {
    find.disabled = true;
    try {
      const begun = settings;
      found = await api.pathfindingSearch(begun);
      searched = JSON.stringify(begun);
      draw();
    } finally {
      find.disabled = false;
    }
  }

  function draw() {
    if (!found) return;
    const shown = found;
    card.element.classList.toggle("dim", searched !== JSON.stringify(settings));
    card.explain([
      ...shown.names.map((one, at) => /** @type {[string, string]} */ ([SERIES[at], shareWord(one)])),
      ["ink", "time"],
      ["good", "best"],
    ]);
    card.later(() => powerPath({ search: shown, colour }));
  }

  /** @param {Record<string, string>} now  inputs that stand */
  function update(now) {
    settings = now;
    draw();
  }
  return { element: card.element, update, draw };
}
