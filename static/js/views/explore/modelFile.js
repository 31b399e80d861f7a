/**
 * A button that takes the model from a Hugging Face config.json; the server reads it, the scenario holds it inline. One
 * without closed form is traced.
 */
import { setOwnModel } from "../../actions.js";
import { ApiError } from "../../api.js";
import { said as sentence, short } from "../../format.js";
import { belongsElsewhere, modelOf } from "../common/configFile.js";
import { announce, h } from "../common/dom.js";
import { importFiles, traceFile } from "../common/imports.js";
import { toast } from "../common/toast.js";

/** The field of a problem of the whole document, which is then no config.json. */
const WHOLE = "(document)";
const NOT_JSON =
  "it is no JSON object. Choose the config.json of a Hugging Face model; logs, tables and traces are imported by the arrow at the top.";

/** @typedef {{model: any, parameters: number, assumptions: string[]}} Found */

/**
 * @param {{label?: string, title?: string, take?: (found: Found) => void}} [options]  `take`: what becomes of the model;
 *   without it the scenario is of it
 */
export function createModelFile({
  label = "config.json of a model",
  title = "Take the model from a Hugging Face config.json",
  take = ({ model, parameters }) => {
    setOwnModel(model);
    announce(`${model.name}: ${short(parameters)} parameters`);
  },
} = {}) {
  const said = h("div", { hidden: true });
  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  const picker = h("input", {
    type: "file",
    hidden: true,
    "aria-label": label,
    onchange: () => picker.files?.[0] && void read(picker.files[0]),
  });
  const button = h("button", {
    type: "button",
    class: "ghost",
    text: "From config.json",
    title,
    onclick: () => picker.click(),
  });

  /** @param {File} file */
  async function read(file) {
    picker.value = "";
    problem.hidden = said.hidden = true;
    if (await belongsElsewhere(file)) {
      toast(`${file.name} is no config.json: it is imported, as if it were dropped on the page`);
      return importFiles([file]);
    }
    try {
      const found = await modelOf(file);
      if (!found) return traceFile(file);
      said.replaceChildren(...found.assumptions.map((text) => h("p", { class: "hint", text })));
      said.hidden = !found.assumptions.length;
      return take(found);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const whole = error.problems.some(({ field }) => field === WHOLE);
      const keys = error.problems.map((one) => `${one.field}: ${sentence(one)}`);
      const words = whole ? NOT_JSON : keys.join(" ") || error.message;
      problem.replaceChildren(h("b", { text: `${file.name} cannot be used: ` }), words);
      problem.hidden = false;
      return undefined;
    }
  }
  /** Forget what was said about a file whose model is no longer shown. */
  const clear = () => {
    problem.hidden = said.hidden = true;
  };
  return { element: h("div", { class: "row modelfile" }, button, picker), said, problem, clear };
}
