/** The options of a benchmark: an input for each, the first few in sight, and beside it what the server refuses. */
import { saidTogether } from "../../format.js";
import { defaultText, problemsOf, readOption } from "../../options.js";
import { same } from "../../scenario.js";
import { h, put } from "../common/dom.js";
import { columnOf } from "../common/table.js";

/** @typedef {import("../../types.js").BenchmarkOption} BenchmarkOption */
/** @typedef {import("../../types.js").Problem} Problem */

const IN_SIGHT = 4;

/**
 * @param {import("../../types.js").Benchmark} benchmark
 * @param {{inSight?: number}} [options]  how many of its options are not folded away
 */
export function createOptionForm({ name, options }, { inSight = IN_SIGHT } = {}) {
  const inputs = options.map((option) => createInput(name, option));
  const [first, rest] = [inputs.slice(0, inSight), inputs.slice(inSight)];
  const chosen = h("span", { class: "chosen" });
  const more = h(
    "details",
    { class: "more" },
    h("summary", {}, h("b", { text: first.length ? "More options" : "Options" }), chosen),
    rest.map(({ element }) => element),
  );
  const element = h(
    "div",
    { class: "options", "data-options": name },
    first.map((one) => one.element),
    rest.length ? more : null,
  );

  /** The options that differ from the benchmark's own, as a job holds them. @returns {Record<string, any>} */
  function values() {
    const given = inputs.map(({ option, value }) => /** @type {[string, any]} */ ([option.name, value()]));
    return Object.fromEntries(given.filter(([, value]) => value !== undefined));
  }

  /** Show these options, and the default of every other. @param {Record<string, any>} given */
  const fill = (given) => inputs.forEach(({ option, write }) => write(given[option.name] ?? option.default));

  /** @param {Problem[]} problems @returns {Problem[]} those of no input here */
  function update(problems) {
    const set = rest.filter(({ value }) => value() !== undefined).map(({ option }) => titleOf(option));
    put(chosen, set.join(", "));
    more.classList.toggle("set", set.length > 0);
    const shown = inputs.flatMap((one) => {
      const own = problemsOf(one.option.name, problems);
      one.update(own);
      if (own.length && rest.includes(one)) more.open = true;
      return own;
    });
    return problems.filter((one) => !shown.includes(one));
  }
  return { element, values, fill, update };
}

/** @param {BenchmarkOption} option */
function titleOf({ name }) {
  const { title, unit } = columnOf(name);
  return unit ? `${title}, ${unit}` : title;
}

/** @param {string} benchmark @param {BenchmarkOption} option */
function createInput(benchmark, option) {
  const id = `option-${benchmark}-${option.name}`;
  const { body, value, write } = control(option, { id, "aria-describedby": `${id}-help` });
  const title = titleOf(option);
  const help = h("small", { id: `${id}-help`, text: option.help === title ? "" : option.help });
  const several = option.list && option.choices;
  const element = several
    ? h("fieldset", { class: "option ticks" }, h("legend", { text: title }), help, body)
    : h("div", { class: "option" }, h("label", { for: id, text: title }), help, body);
  /** @type {HTMLElement | null} */
  let problem = null;

  /** @param {Problem[]} problems */
  function update(problems) {
    element.classList.toggle("wrong", problems.length > 0);
    problem?.remove();
    problem = problems.length ? h("div", { class: "problem", role: "alert", text: saidTogether(problems) }) : null;
    if (problem) element.append(problem);
  }
  return { element, option, value, write, update };
}

/**
 * @param {BenchmarkOption} option @param {Record<string, string>} described
 * @returns {{body: HTMLElement, value: () => any, write: (given: any) => void}}  `value`: undefined where it is the default
 */
function control(option, described) {
  const { choices, default: own } = option;
  if (option.type === "boolean") {
    const tick = h("input", { ...described, type: "checkbox", checked: own });
    const value = () => (tick.checked === own ? undefined : tick.checked);
    return { body: tick, value, write: (given) => (tick.checked = given) };
  }
  if (choices && option.list) {
    const ticks = choices.map((choice) =>
      h("input", { type: "checkbox", value: choice, checked: own.includes(choice) }),
    );
    const body = h(
      "div",
      {},
      ticks.map((tick) => h("label", {}, tick, tick.value)),
    );
    const value = () => {
      const ticked = ticks.filter(({ checked }) => checked).map((tick) => tick.value);
      return !ticked.length || same(ticked, own) ? undefined : ticked;
    };
    return { body, value, write: (given) => ticks.forEach((tick) => (tick.checked = given.includes(tick.value))) };
  }
  if (choices) {
    const select = h(
      "select",
      described,
      choices.map((choice) => h("option", { value: choice, text: choice, selected: choice === own })),
    );
    const value = () => (select.value === own ? undefined : select.value);
    return { body: select, value, write: (given) => (select.value = given) };
  }
  const box = h("input", { ...described, type: "text", placeholder: defaultText(option), spellcheck: "false" });
  const value = () => {
    const read = readOption(option, box.value);
    return same(read, own) ? undefined : read;
  };
  const write = (/** @type {any} */ given) => {
    box.value = same(given, own) ? "" : [given].flat().join(", ");
  };
  return { body: box, value, write };
}
