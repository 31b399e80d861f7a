/** Which level of memory the roofline is about: device memory, or the cache before it on chips whose caches are known. */
import { hasLevels, hierarchyOf } from "../../pair.js";
import { worksAt } from "../../figures/points.js";
import { state } from "../../state.js";
import { h } from "../common/dom.js";

/** @typedef {import("../../figures/roofline.js").Series} Series */
/** @typedef {import("../../sides.js").Side} Side */

const LEVELS = /** @type {[string, string][]} */ ([
  ["", "HBM"],
  ["L2", "L2"],
]);

/** @param {() => void} draw  another level was chosen */
export function createLevels(draw) {
  let level = "";
  const buttons = LEVELS.map(([key, text]) =>
    h("button", {
      type: "button",
      text,
      "aria-label": `Roofline: bytes of ${key || "device memory"}, ${text}`,
      onclick: () => {
        level = key;
        draw();
      },
    }),
  );

  /** Sides that a scenario predicts, whose products the server knows level by level. */
  const predicted = () =>
    [state.pair?.a, state.pair?.b]
      .filter((side) => side?.estimate && hasLevels(side.scenario))
      .map((side) => /** @type {Side} */ (side));

  function update() {
    const offered = predicted().length > 0;
    if (!offered) level = "";
    buttons.forEach((button, at) => {
      button.hidden = !offered;
      button.setAttribute("aria-pressed", String(LEVELS[at][0] === level));
    });
    if (level) for (const { scenario } of predicted()) hierarchyOf(scenario);
  }

  /**
   * Series at the chosen level, and its bandwidth by side: predicted ones by its bytes; measured ones have none and stay
   * away.
   * @param {Series[]} series
   */
  function apply(series) {
    /** @type {Record<string, number>} */
    const bytes_per_s = {};
    if (!level) return { series, bytes_per_s, level: undefined };
    const there = predicted().flatMap((side) => {
      const found = hierarchyOf(side.scenario);
      const own = series.find(({ letter }) => letter === side.letter);
      const roof = found?.roofs.find(({ name }) => name === level);
      if (!found || !own || !roof) return [];
      bytes_per_s[side.letter] = roof.bytes_per_s;
      return [{ ...own, works: worksAt(own.works, found.rows, level) }];
    });
    return there.length ? { series: there, bytes_per_s, level } : { series, bytes_per_s, level: undefined };
  }
  return { buttons, update, apply };
}
