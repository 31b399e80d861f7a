/** A Llama layer on a real chip: the same roofline, level by level, for a chip of the catalogue. */
import { api } from "../../api.js";
import { hierarchical, levelNames } from "../../figures/hierarchy.js";
import { colour, h, narrow } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { trying } from "../common/toast.js";

const USUAL = { chip: "h200-sxm", mode: "bound" };

/** @param {{name: () => string}} options */
export function createPathLayer({ name }) {
  const chip = h("select", { "aria-label": "Chip" });
  const mode = h("select", { "aria-label": "Mode of the roofline" });
  const actions = [chip, mode];
  const card = new FigureCard({ id: "path-llama", title: "Llama 3 8B layer", height: 340, span: "", actions, name });
  /** @type {import("../../figures/hierarchy.js").Hierarchy | null} */
  let hierarchy = null;
  const pick = () => void trying(ask());
  chip.addEventListener("change", pick);
  mode.addEventListener("change", pick);

  async function start() {
    if (chip.options.length) return;
    const known = await api.hierarchyChoices();
    const options = (/** @type {string[]} */ all) => all.map((value) => h("option", { value, text: value }));
    chip.replaceChildren(...options(known.chips));
    mode.replaceChildren(...options(known.modes));
    [chip.value, mode.value] = [USUAL.chip, USUAL.mode];
    await ask();
  }

  async function ask() {
    const scenario = {
      model: "llama3-8b",
      cluster: { chip: chip.value, chips_per_node: 1 },
      training: { seq_len: 4096, global_batch: 1, precision: "bf16" },
    };
    const asked = [chip.value, mode.value].join();
    const answer = await api.hierarchy(scenario, mode.value);
    if (asked !== [chip.value, mode.value].join()) return;
    hierarchy = { ...answer, rows: answer.rows.filter((/** @type {any} */ row) => row.layer === "layer") };
    draw();
  }

  function draw() {
    if (!hierarchy) return;
    const shown = hierarchy;
    card.explain(levelNames(shown));
    card.later(() => hierarchical({ hierarchy: shown, colour, narrow: narrow() }));
  }
  return { element: card.element, start: () => void trying(start()), draw };
}
