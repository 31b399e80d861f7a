/** The strip: five numbers as A → B, each with its interval and what is drawn of it; the price is edited in place. */
import { setPrice } from "../../actions.js";
import { arrow, bytes, change, count, measured, percent, scaleFor, short, significant } from "../../format.js";
import { spreadWords } from "../../measured.js";
import {
  doubtBadge,
  judged,
  priceOf,
  unconfirmed,
  rowsOfAll,
  rowsOfEach,
  silent,
  uncounted,
  workRatio,
} from "../../sides.js";
import { chipOf, chipWord } from "../../scenario.js";
import { state } from "../../state.js";
import { h, narrow, put } from "../common/dom.js";
import { toast } from "../common/toast.js";
import { drawBand, stretch, svg, WIDE } from "./band.js";
import { capacityHint } from "./specs.js";

/** @typedef {import("../../sides.js").Side} Side */
/** @typedef {import("./band.js").Range} Range */

/** @param {string} id @param {string} title @param {string} hint */
function tile(id, title, hint) {
  const parts = {
    title: h("span", { text: title }),
    delta: h("b"),
    a: h("i"),
    to: h("s", { text: "→" }),
    b: h("b"),
    unit: h("small"),
    low: h("span"),
    high: h("span"),
  };
  const band = svg("svg", { viewBox: `0 0 ${WIDE} 12`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const element = h(
    "div",
    { class: "tile", id: `tile-${id}`, title: hint },
    h("dt", {}, parts.title, parts.delta),
    h("dd", {}, parts.a, parts.to, parts.b, parts.unit),
    h("dd", { class: "r" }, parts.low, band, parts.high),
  );
  return { ...parts, band, element };
}

const STEP_HINT = "One optimizer step. Band: the 80 % interval of a prediction, or the spread of measured steps.";

const MFU_HINT =
  "Model FLOPs per second over the chips' dense peak, with the full attention square and nothing recomputed (PaLM's convention, arXiv 2204.02311). HFU counts what the chips execute: recomputed work too, but of causal attention only the half that is not masked, so it can be the lower one.";
/** By how many times as many tokens in a step another batch is no better plan. */
const OTHER_WORK = 2;
/** In percent. @param {Side} side */
const mfuOf = ({ mfu }) => 100 * (mfu ?? 0);

/** @typedef {ReturnType<typeof tile>} Tile */

export function createStrip() {
  const step = tile("step-time", "Step time", "");
  const tokens = tile("tokens", "Tokens/s per GPU", "Tokens of a step over its time and its chips.");
  const mfu = tile("mfu", "MFU", MFU_HINT);
  const peak = tile("peak-memory", "Peak memory", "");
  const price = tile("price", "Per million tokens", "Chips × their price per hour × step time / tokens.");
  const usd = h("button", { type: "button", class: "edit" });
  const input = h("input", {
    type: "number",
    class: "edit-price",
    min: 0,
    step: 0.01,
    hidden: true,
    "aria-label": "Price of one chip for an hour, in dollars",
  });
  price.unit.append(h("span", { text: "¢ " }), usd, input);
  const element = h(
    "dl",
    { class: "card strip skeleton" },
    [step, tokens, mfu, peak, price].map((one) => one.element),
  );

  usd.onclick = () => {
    usd.hidden = true;
    input.hidden = false;
    const { pair } = state;
    input.value = String(usdPerHour(pair?.b ?? pair?.a).usd || "");
    input.select();
  };
  let closing = false;
  function close() {
    if (closing) return;
    closing = true;
    input.hidden = true;
    usd.hidden = false;
    closing = false;
  }
  input.onchange = () => {
    const value = input.value === "" ? 0 : input.valueAsNumber;
    const why = priceRefused(value);
    if (why) toast(why);
    else setPrice(value);
    close();
    update();
  };
  input.onblur = close;
  input.onkeydown = ({ key }) => {
    if (key === "Escape" || key === "Enter") input.blur();
  };

  function update() {
    const { pair, drag } = state;
    const one = pair?.a ?? pair?.b ?? null;
    if (!pair || !one) return;
    if (!silent(pair) && ![pair.a, pair.b].some((side) => side?.step_s || side?.peak_bytes)) return;
    element.classList.remove("skeleton");
    const [a, b] = pair.a && pair.b ? [pair.a, pair.b] : [null, one];
    const ghost = !a && drag?.estimate ? drag.estimate : null;
    const chip = chipWord(b.chip);
    const times = [a?.step_s ?? ghost?.step_time_s, b.step_s];
    const muted = !b.fits;
    const work = workRatio(a, b);
    const seconds = scaleFor(Math.max(...times.map((value) => value ?? 0)), "s");
    const ranged = (/** @type {Side | null} */ side, /** @type {(step_s: number) => number | null} */ of) => {
      if (!side?.range_s) return null;
      const ends = side.range_s.map(of);
      return ends.some((end) => end === null) ? null : /** @type {Range} */ (ends.map(Number).sort((x, y) => x - y));
    };
    const shown = (
      /** @type {Tile} */ into,
      /** @type {(side: Side, step_s: number) => number | null} */ of,
      /** @type {(value: number) => string} */ write,
      /** @type {string | null} */ unit,
      /** @type {boolean} */ lessIsBetter,
    ) => {
      const value = (/** @type {Side | null} */ side) => (side?.step_s ? of(side, side.step_s) : null);
      const [first, second] = [value(a), value(b)];
      const ranges = [a, b].map((side) => ranged(side, (step_s) => (side ? of(side, step_s) : null)));
      numbers(into, first, second, write, unit, muted, pair.edited);
      delta(
        into,
        first,
        second,
        lessIsBetter,
        muted || (into === step ? work !== 1 : Math.max(work, 1 / work) >= OTHER_WORK),
      );
      drawBand(into, [first, second], ranges, [a, b], write);
    };
    shown(
      step,
      (_, step_s) => step_s,
      (value) => measured(value / seconds.factor),
      seconds.unit,
      true,
    );
    const run = b.measurement ?? a?.measurement ?? null;
    step.element.title = [run && spreadWords(run), STEP_HINT].filter(Boolean).join(" ");
    const word = rowsWord([a, b]);
    const rowWord = word || "tokens";
    const sides = [a, b].filter((side) => side !== null);
    // a log without its number of chips says what all of them do
    const whole =
      sides.every((side) => rowsOfEach(side, rowWord) === null) && sides.some((side) => rowsOfAll(side, rowWord));
    const rows = (/** @type {Side} */ side) => (whole ? rowsOfAll(side, rowWord) : rowsOfEach(side, rowWord));
    const rateWord = word ? `${word[0].toUpperCase()}${word.slice(1)}/s` : "Throughput";
    put(tokens.title, whole ? `${rateWord}, all ${chip}s` : `${rateWord} per ${chip}`);
    tokens.title.dataset.brief = whole ? `${rateWord}, all` : `${rateWord}/${chip}`;
    put(price.title, word ? `Per million ${word}` : "Price");
    price.title.dataset.brief = word ? `Per M ${word}` : "Price";
    const rates = sides.map((side) => (side.step_s ? (rows(side) ?? 0) / side.step_s : 0));
    const kilo = Math.max(...rates) >= 1e4;
    const rate = (/** @type {number} */ value) => (kilo ? measured(value / 1e3) : short(value));
    shown(
      tokens,
      (side, step_s) => {
        const some = rows(side);
        return some ? some / step_s : null;
      },
      rate,
      kilo ? "k" : "",
      false,
    );
    shown(
      mfu,
      (side, step_s) => (side.mfu && side.step_s ? (mfuOf(side) * side.step_s) / step_s : null),
      (value) => (value > 0 && value < 1e-3 ? "< 0.001" : measured(value)),
      "%",
      false,
    );
    if (sides.some((side) => mfuOf(side) > 100)) {
      put(mfu.delta, "above the peak");
      mfu.delta.className = "worse";
      mfu.element.title = `More than the chip's peak cannot be: model, batch, chip or time is another than said. ${MFU_HINT}`;
    } else mfu.element.title = MFU_HINT;
    peak.title.dataset.brief = "Memory";
    memory(peak, a, b, pair.edited);
    const known = usdPerHour(b);
    // two chips have two prices
    const prices = [...new Set([a ?? b, b].map((side) => usdPerHour(side).usd).filter(Boolean))];
    put(usd, known.usd ? `$${prices.map((price_usd) => price_usd.toFixed(2)).join(" → ")}/h` : "set $/h");
    const unpriced = [a, b].find((side) => side && !usdPerHour(side).usd);
    usd.title = unpriced ? priceMissing(unpriced.chip) : `One ${chip} for an hour. ${known.source}`;
    shown(
      price,
      (side, step_s) => {
        const each = { ...side, step_s, chips: 1, tokens: rowsOfEach(side, rowWord) };
        const found = priceOf(each, usdPerHour(side).usd);
        return found?.million_usd === null || !found ? null : found.million_usd * 100;
      },
      (value) => measured(value),
      null,
      true,
    );
    // what is not known says why, where its interval would be
    const why =
      [b, a].map((side) => side && uncounted(side)).find(Boolean) ??
      (whole ? `its number of ${chip}s is not known` : "");
    if (why) for (const one of [tokens, price]) if (!one.low.textContent) put(one.low, why);
    if (unpriced && !why) put(price.delta, "no price");
    const step_usd = priceOf(b, known.usd)?.step_usd;
    price.element.title = `Chips × their price per hour × step time / tokens.${step_usd ? ` A step costs $${significant(step_usd)}.` : ""}`;
  }
  return { element, update };
}

/** What the throughput of both counts: tokens, or samples where neither has any; "" where nobody knows. @param {(Side | null)[]} sides */
function rowsWord(sides) {
  const some = sides.filter((side) => side !== null);
  // a plan and what is not there yet count tokens; an unknown program may count pictures as well
  if (
    some.some(
      ({ tokens, logged, scenario, estimate, measurement }) =>
        tokens || logged?.of === "tokens" || scenario || !(estimate || measurement),
    )
  )
    return "tokens";
  return some.some(({ samples, logged }) => samples || logged) ? "samples" : "";
}

/**
 * What a chip costs for an hour: the person's number, else the catalogue's with its source.
 * @param {Side | null} [side]  whose chip; the panel's without one
 */
export function usdPerHour(side) {
  const { usd_per_hour, scenario, catalog } = state;
  if (usd_per_hour > 0) return { usd: usd_per_hour, source: "Given by you." };
  const chip = side?.chip ?? chipOf(scenario, catalog);
  const source = catalog.chips.find(({ value }) => value === chip)?.sources.usd_per_hour;
  return { usd: Number(chip.usd_per_hour) || 0, source: source ? `Source: ${source}.` : "" };
}

/** Why a price of one chip cannot be; "" where it can. @param {number} usd  for an hour */
export function priceRefused(usd) {
  const most = state.catalog.fields["chip.usd_per_hour"]?.maximum ?? Infinity;
  return usd >= 0 && usd <= most ? "" : `A chip-hour costs from 0 to ${count(most)} dollars.`;
}

/** Why a chip costs nothing yet, and what to do. @param {import("../../types.js").Part} chip */
export function priceMissing(chip) {
  const entry = state.catalog.chips.find(({ value }) => value === chip);
  return `The catalogue has no price of ${entry?.label ?? chip.name ?? "this chip"}: give what one costs for an hour, in dollars.`;
}

/**
 * @param {Tile} tile @param {number | null} a @param {number | null} b @param {(value: number) => string} write
 * @param {string | null} unit  null: it stays @param {boolean} muted @param {string} edited  whose number the panel moves
 */
function numbers(tile, a, b, write, unit, muted, edited) {
  const both = a !== null;
  put(tile.a, both ? write(a) : "");
  tile.a.hidden = tile.to.hidden = !both;
  put(tile.b, b === null ? "–" : write(b));
  tile.b.className = muted ? "muted" : "";
  tile.a.classList.toggle("own", edited === "A" && both);
  tile.b.classList.toggle("own", edited === "B" || !both);
  if (unit !== null) put(tile.unit, unit);
}

/** @param {Tile} tile @param {number | null} a @param {number | null} b @param {boolean} lessIsBetter @param {boolean} muted */
function delta(tile, a, b, lessIsBetter, muted) {
  const frac = a && b !== null ? b / a - 1 : null;
  const { pair, catalog } = state;
  if (frac === null || !pair || !judged(pair, catalog)) {
    const why =
      pair?.a?.disturbed || pair?.b?.disturbed
        ? "disturbed"
        : pair && unconfirmed(pair)
          ? "not confirmed"
          : (pair && doubtBadge(pair, catalog)) || "no prediction";
    const said = frac === null ? "" : why;
    put(tile.delta, said);
    tile.delta.className = said && "why";
    tile.delta.title = said;
    return;
  }
  tile.delta.title = "";
  const nothing = Math.abs(frac) < 0.0005;
  tile.delta.className = nothing || muted ? "" : frac < 0 === lessIsBetter ? "better" : "worse";
  put(tile.delta, `${arrow(frac)} ${change(frac)}`.trim());
}

/** What of a prediction has to fit, which is more than its peak. @param {Side} side */
function reservedHint({ estimate }) {
  if (!estimate?.memory.reserved_bytes) return "";
  const { peak_bytes, reserved_bytes } = estimate.memory;
  return `${bytes(peak_bytes)} is what is held at the peak; the allocator reserves ${bytes(reserved_bytes)} for it, which has to fit.`;
}

/** @param {number | null} risk */
const riskHint = (risk) =>
  risk !== null && risk >= 0.001
    ? `OOM risk: of steps predicted like this one, about ${percent(risk, 2)} run out of memory.`
    : "";

/** @param {Tile} tile @param {Side | null} a @param {Side} b @param {string} edited */
function memory(tile, a, b, edited) {
  const [first, second] = [a?.peak_bytes ?? null, b.peak_bytes];
  const capacity = (b.predicted ? b : a)?.capacity_bytes ?? b.capacity_bytes ?? a?.capacity_bytes ?? null;
  // a model that fills little of the memory in its own unit: thousandths of the memory's say nothing
  const { factor, unit } = scaleFor(Math.max(first ?? 0, second ?? 0) || (capacity ?? 0), "bytes");
  const write = (/** @type {number} */ value) => measured(value / factor);
  numbers(tile, a ? first : null, second, write, null, false, edited);
  if (a && first === null) put(tile.a, "–");
  tile.a.hidden = tile.to.hidden = !a;
  tile.b.classList.toggle("over", !b.fits);
  put(tile.unit, capacity && scaleFor(capacity, "bytes").factor === factor ? `of ${bytes(capacity)}` : unit);
  const risk = b.risk_frac ?? a?.risk_frac ?? null;
  tile.element.title = [reservedHint(b), riskHint(risk), capacityHint()].filter(Boolean).join(" ");
  tile.element.classList.toggle("alarm", !b.fits);
  const over = !b.fits && b.estimate ? b.estimate.memory.reserved_bytes - b.estimate.memory.capacity_bytes : 0;
  const open = Boolean(state.pair && unconfirmed(state.pair));
  const moved = first && second ? (second - first) / factor : 0;
  put(
    tile.delta,
    over > 0
      ? `+${bytes(over)} over`
      : first && second && !open
        ? Math.abs(moved) < 0.05
          ? "±0"
          : `${moved < 0 ? "−" : "+"}${write(Math.abs(second - first))} ${unit}`
        : "",
  );
  tile.delta.className = over > 0 ? "worse" : "";
  // the figure above is the peak, and this is what has to fit
  const needed = over > 0 && !narrow() ? b.estimate?.memory.reserved_bytes : 0;
  put(tile.low, needed ? `needs ${measured(needed / factor)}` : "");
  put(
    tile.high,
    !b.fits
      ? risk !== null && risk < 0.995
        ? `OOM risk ${percent(risk, 2)}`
        : "does not fit"
      : risk === null
        ? capacity && second
          ? `${percent(second / capacity, 2)} used`
          : ""
        : risk < 0.001
          ? "OOM risk < 0.1 %"
          : `OOM risk ${percent(risk, 2)}`,
  );
  tile.high.className = risk !== null && risk >= 0.05 ? "worse" : "";
  if (!capacity) return tile.band.replaceChildren();
  const most = Math.max(capacity, first ?? 0, second ?? 0);
  const x = (/** @type {number} */ value) => (value / most) * (WIDE - 4) + 2;
  const marks = [
    svg("line", { x1: 0, x2: WIDE, y1: 6, y2: 6, class: "rail" }),
    ...stretch(0, x(first ?? second ?? 0), (first === null ? b : a)?.predicted ?? true),
    svg("line", { x1: x(capacity), x2: x(capacity), y1: 0, y2: 12, class: "capacity" }),
  ];
  if (second !== null) {
    const at = Math.max(5, x(second));
    marks.push(
      svg("path", {
        d: `M${at - 5},6L${at},1L${at + 5},6L${at},11Z`,
        class: `diamond${b.predicted ? " hollow" : ""}${b.fits ? "" : " bad"}`,
      }),
    );
  }
  return tile.band.replaceChildren(...marks);
}
