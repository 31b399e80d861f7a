/**
 * The strip over the tiles: baseline, pinned scenarios, the measured run beside the prediction, and the way they
 * differ.
 */
import { pinScenario, setScenario, show, togglePin } from "../../actions.js";
import { apart, deviceName, isTable, measuredChip } from "../../measured.js";
import { openMeasurement, setMeasured } from "../../measurements.js";
import { chipOf, describe, differences, shortLabel } from "../../scenario.js";
import { state } from "../../state.js";
import { pinned, pinOf } from "../../url.js";
import { h, icon } from "../common/dom.js";
import { trying } from "../common/toast.js";

/** @param {string} kind @param {string} text @param {{open?: () => void, close?: () => void, title?: string}} acts */
function chip(kind, text, { open, close, title = "" }) {
  const label = h("b", { text });
  return h(
    "span",
    { class: "chip", title },
    kind,
    open ? h("button", { type: "button", class: "text", onclick: open }, label) : label,
    close && h("button", { type: "button", "aria-label": `Remove ${kind} ${text}`, onclick: close }, icon("close")),
  );
}

export function createPins() {
  const element = h("div", { class: "pins", "aria-label": "What is compared" });
  function update() {
    const { pins, base, scenario, catalog, measured, measurement, measuredScenario } = state;
    const scenarios = pins.filter((pin) => pin.startsWith("s:"));
    const chips = scenarios.map((pin, at) => {
      const its = pinned(pin, base);
      return chip(
        at ? "pinned" : "baseline",
        shortLabel(its, scenario) === "this scenario" ? "this scenario" : shortLabel(its, scenario),
        {
          open: () => setScenario(its),
          close: () => togglePin(pin),
          title: describe(its, catalog),
        },
      );
    });
    let tables = 0;
    for (const pin of pins.filter((one) => one.startsWith("m:") && one.slice(2) !== measured)) {
      const summary = state.measurements?.find(({ id }) => id === pin.slice(2));
      if (summary && isTable(summary)) tables += 1;
      else
        chips.push(
          chip("pinned run", summary?.label || pin.slice(2, 10), {
            open: () => void trying(openMeasurement(pin.slice(2))),
            close: () => togglePin(pin),
          }),
        );
    }
    if (measured)
      chips.push(
        chip("measured", measurement?.label || measurement?.id?.slice(0, 8) || "…", {
          close: () => setMeasured(""),
          title: measurement ? deviceName(measurement) : "",
        }),
      );
    if (tables)
      chips.push(chip("in Compare", tables === 1 ? "1 table" : `${tables} tables`, { open: () => show("compare") }));
    const own = pinOf(scenario, base);
    if (!pins.includes(own))
      chips.push(
        h(
          "span",
          { class: "chip" },
          h("button", { type: "button", class: "text", onclick: pinScenario }, icon("pin"), "Pin this scenario"),
        ),
      );
    const text = relation();
    const back =
      measuredScenario &&
      measuredText() &&
      h("button", {
        type: "button",
        class: "link",
        text: measuredText(),
        onclick: () => setScenario(measuredScenario),
      });
    element.replaceChildren(...chips, ...(text ? [h("span", { text })] : []), ...(back ? [back] : []));
  }
  return { element, update };
}

/** What leads to the scenario that was measured, where it is too far from the shown one. */
function measuredText() {
  const { measurement, scenario, catalog } = state;
  const why = apart(state, scenario);
  if (!measurement || why !== "chip") return why && "Predict what was measured";
  const chip = measuredChip(measurement, catalog.chips);
  return chip ? `Predict for ${chip.label}` : "";
}

/** How the measured run and the shown scenario belong together. */
export function relation() {
  const { measurement, measuredScenario, scenario, catalog } = state;
  if (!measurement) return "";
  const [device, chip] = [deviceName(measurement), chipOf(scenario, catalog).label ?? "this hardware"];
  if (apart(state, scenario) === "chip") return `measured on ${device}: not drawn beside a prediction for ${chip}`;
  if (!measuredScenario)
    return `measured${device ? ` on ${device}` : ""}; not drawn beside a scenario until its own is confirmed`;
  const found = differences(scenario, measuredScenario);
  if (!found.length) return "";
  const model = found.find(({ path }) => path === "model");
  if (model) return `the run is of ${model.b}: not drawn beside another model`;
  const names = found.map(({ path }) => path.split(".").pop()?.replaceAll("_", " "));
  return `the run differs in ${names.length > 3 ? `${names.length} settings` : names.join(", ")}`;
}
