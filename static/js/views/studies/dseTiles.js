/** The headline of the machine from technology: time, memory overflow, what binds the products, power shares. */
import { percent, quantity, significant, split } from "../../format.js";
import { h, put } from "../common/dom.js";

const BUDGET = 1.0005; // shares beyond it are more than their rounding

/** @param {string} id @param {string} title */
function tile(id, title) {
  const [value, unit, note] = [h("span"), h("small"), h("p")];
  const number = h("dd", {}, value, unit);
  const element = h(
    "div",
    { class: "card tile", id },
    h("dt", { text: title }),
    number,
    h("dd", { class: "more" }, note),
  );
  return { element, value, unit, note };
}

export function createPathTiles() {
  const time = tile("path-tile-time", "Time of a step");
  const overflow = tile("path-tile-overflow", "Memory overflow");
  const binds = tile("path-tile-binds", "What binds the products");
  const shares = tile("path-tile-shares", "Power shares");
  const all = [time, overflow, binds, shares];
  const element = h(
    "dl",
    { class: "tiles four" },
    all.map((one) => one.element),
  );

  /** @param {any} seen  the server's answer */
  function update({ time_s, overflow: rate, needed_bytes, capacity_bytes, binds: parts, share_sum, time_per_step_s }) {
    const [number, unit] = split(time_s, "s");
    put(time.value, number);
    put(time.unit, unit);
    put(time.note, `target for a day per epoch: ${quantity(time_per_step_s, "s")}`);
    put(overflow.value, significant(rate));
    put(overflow.unit, "×");
    put(overflow.note, `${quantity(needed_bytes, "bytes")} on ${quantity(capacity_bytes, "bytes")}`);
    overflow.note.className = rate > 1 ? "worse" : "better";
    const products_s = parts.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.seconds, 0);
    const share = (/** @type {any} */ { name, seconds }) => `${name} ${percent(seconds / products_s)}`;
    put(binds.value, parts[0]?.name ?? "–");
    put(binds.note, parts.map(share).join(", "));
    put(shares.value, significant(100 * share_sum));
    put(shares.unit, "%");
    put(shares.note, share_sum > BUDGET ? "more than the budget" : "of the budget");
    shares.note.className = share_sum > BUDGET ? "caution" : "";
  }
  return { element, update };
}
