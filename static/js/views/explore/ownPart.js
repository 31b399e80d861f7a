/** A model or chip of one's own: the fields of the one that is shown, to be changed; saved in this browser. */
import { renamePart, setOwnChip, setOwnModel } from "../../actions.js";
import { significant } from "../../format.js";
import { edited, outOfRange, ownFields, savedParts, savePart } from "../../ownParts.js";
import { chipOf, modelOf } from "../../scenario.js";
import { state } from "../../state.js";
import { h, put } from "../common/dom.js";
import { toast } from "../common/toast.js";

/** @typedef {import("../../ownParts.js").Kind} Kind */

/**
 * @param {Kind} kind @param {() => void} saved  the list of own parts has changed
 */
export function createOwnPart(kind, saved) {
  const take = kind === "model" ? setOwnModel : setOwnChip;
  const now = () => (kind === "model" ? modelOf : chipOf)(state.scenario, state.catalog);
  const given = () => (kind === "model" ? state.scenario.model : state.scenario.cluster.chip);
  const ownName = () => {
    const value = given();
    return typeof value === "string" ? `my ${value}` : value.name || `my ${kind}`;
  };
  /** @param {ReturnType<typeof ownFields>[number]} field */
  function row(field) {
    const id = `own-${kind}-${field.name}`;
    const input = h("input", field.yes ? { type: "checkbox", id } : { type: "number", id, min: 0, step: "any" });
    const problem = h("div", { class: "problem", role: "alert", hidden: true });
    input.addEventListener("change", () => {
      const limits = state.catalog.fields[`${kind}.${field.name}`];
      const why = field.yes ? "" : outOfRange(field, input.valueAsNumber, limits);
      problem.replaceChildren(h("b", { text: `Refused: ${input.value || "no number"}. ` }), why);
      problem.hidden = !why;
      input.setAttribute("aria-invalid", String(Boolean(why)));
      if (why) return;
      const value = field.yes ? input.checked : input.valueAsNumber * field.factor;
      take(edited(now(), field.name, value, name.value.trim() || ownName()));
    });
    const element = h(
      "div",
      { class: "own" },
      h("label", { for: id, text: field.label }),
      input,
      h("span", { text: field.unit }),
      problem,
    );
    return { field, input, element, problem };
  }
  /** @type {ReturnType<typeof row>[]} */
  let rows = []; // made when they are unfolded: the page's first figures need not wait for them
  /** The name that a typed one is to take the place of: an answer that comes meanwhile leaves what is typed. */
  let instead = "";
  const name = h("input", { type: "text", id: `own-${kind}-name`, maxlength: 60, "aria-label": `Name of the ${kind}` });
  const forget = h("button", {
    type: "button",
    class: "ghost",
    text: "Forget",
    onclick: () => {
      savePart(kind, name.value, null);
      saved();
      update();
    },
  });
  const save = h("button", {
    type: "button",
    class: "ghost",
    text: "Save",
    "aria-label": `Save this ${kind} in this browser`,
    onclick: () => {
      const own = name.value.trim() || ownName();
      const part = { ...now(), name: own, ...(kind === "chip" && { label: own }) };
      renamePart(kind, part);
      toast(savePart(kind, own, part) ? `Saved: ${own}` : "This browser does not keep it; the link does.");
      saved();
    },
  });
  const changed = h("span", { class: "chosen" });
  const last = h("div", { class: "row" }, name, save, forget);
  const element = h("details", { class: "unfold ownpart" }, h("summary", {}, h("b", { text: "Own" }), changed), last);

  function update() {
    const part = now();
    const inline = typeof given() === "object";
    element.classList.toggle("set", inline);
    put(changed, inline ? `${ownName()}` : `change this ${kind}, and save it`);
    forget.hidden = !(name.value in savedParts()[kind]);
    if (!element.open) return;
    if (!rows.length) {
      rows = ownFields(kind, state.catalog).map(row);
      last.before(...rows.map((one) => one.element));
    }
    for (const { field, input, problem } of rows) {
      // what is refused stays until it is corrected
      if (document.activeElement === input || !problem.hidden) continue;
      const value = part[field.name] ?? state.catalog.fields[`${kind}.${field.name}`]?.default;
      if (field.yes) input.checked = Boolean(value);
      else
        input.value =
          value === undefined || value === null
            ? ""
            : String(
                Number(
                  significant(value / field.factor, 6)
                    .replace(/\s/g, "")
                    .replace("−", "-"),
                ),
              );
    }
    if (document.activeElement !== name && instead !== ownName()) {
      name.value = ownName();
      instead = "";
    }
    forget.hidden = !(name.value in savedParts()[kind]);
  }
  element.addEventListener("toggle", update);
  name.addEventListener("input", () => {
    instead = ownName();
    forget.hidden = !(name.value in savedParts()[kind]);
  });
  return { element, update };
}
