/** Inputs of a study: a number box or a choice each; what the server refuses stands under its input. */
import { saidTogether } from "../../format.js";
import { h, put } from "../common/dom.js";

/** @typedef {import("../../types.js").StudyInput} StudyInput */

const LARGE = 1e9;

/** Write a value as a person would type it: 312e12 rather than 312000000000000. @param {any} value */
export function typed(value) {
  if (typeof value !== "number" || Math.abs(value) < LARGE) return String(value);
  const digits = value.toExponential().replace("e+", "e");
  return digits.length < String(value).length ? digits : String(value);
}

/** @param {string} name */
const label = (name) => name.replaceAll("_", " ");

/**
 * @param {{info: import("../../types.js").StudyInfo, change: (settings: Record<string, string>) => void}} options
 */
export function createStudyForm({ info, change }) {
  /** @type {Record<string, string>} */
  let settings = {};
  const fields = info.inputs.map((input) => createInput(input, (value) => change(changed(input, value))));
  const reset = h("button", {
    type: "button",
    class: "ghost",
    text: "Back to the reference",
    onclick: () => change({}),
  });
  const element = h(
    "div",
    { class: "form study-form" },
    fields.map((one) => one.element),
    reset,
  );

  /** @param {StudyInput} input @param {string} value */
  function changed(input, value) {
    const { [input.name]: _, ...rest } = settings;
    const same = value === "" || value === String(input.default) || value === typed(input.default);
    return same ? rest : { ...rest, [input.name]: value };
  }

  /** @param {Record<string, string>} now @param {import("../../types.js").Problem[]} problems */
  function update(now, problems) {
    settings = now;
    reset.hidden = !Object.keys(now).length;
    for (const field of fields)
      field.update(
        now[field.name],
        problems.filter((one) => one.field === field.name),
      );
  }
  return { element, update };
}

/** @param {StudyInput} input @param {(value: string) => void} change */
function createInput({ name, type, choices, minimum, maximum, help, default: own }, change) {
  const id = `study-input-${name}`;
  const options = choices ?? (type === "boolean" ? ["false", "true"] : null);
  const described = { id, "aria-describedby": `${id}-help ${id}-problem` };
  const box = options
    ? h(
        "select",
        described,
        options.map((value) => h("option", { value, text: value })),
      )
    : h("input", {
        ...described,
        type: type === "text" ? "text" : "number",
        step: "any",
        min: minimum,
        max: maximum,
        inputmode: type === "integer" ? "numeric" : "decimal",
      });
  box.addEventListener("change", () => change(box.value.trim()));
  const problem = h("div", { class: "problem", id: `${id}-problem`, role: "alert", hidden: true });
  const element = h(
    "div",
    { class: "study-input" },
    h("label", { for: id, text: label(name) }),
    h("small", { id: `${id}-help`, text: help }),
    box,
    problem,
  );

  /** @param {string | undefined} value @param {import("../../types.js").Problem[]} problems */
  function update(value, problems) {
    const text = value ?? typed(own);
    if (document.activeElement !== box || box.value.trim() === "") box.value = text;
    else if (box.value !== text && !problems.length) box.value = text;
    element.classList.toggle("set", value !== undefined);
    element.classList.toggle("wrong", problems.length > 0);
    problem.hidden = !problems.length;
    put(problem, saidTogether(problems));
  }
  return { element, update, name };
}
