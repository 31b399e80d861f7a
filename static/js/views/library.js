// @ts-check
/** The list of all measurements, to pick from. */
import { bytes, count, seconds, when } from "../format.js";
import { state } from "../state.js";
import { h } from "./dom.js";

export function createLibrary() {
  const list = h("ul", { class: "library" });
  const search = h("input", { type: "text", placeholder: "Filter by name, device, format", "aria-label": "Filter measurements", style: { width: "100%" }, oninput: () => update() });
  const element = h("section", {}, h("h2", { text: "Measurements" }), search, list);
  const acts = { element, update, onopen: (/** @type {string} */ _id) => {}, onpick: (/** @type {string} */ _id) => {} };

  function update() {
    const { measurements, pins, measured } = state;
    if (!measurements) return;
    const word = search.value.trim().toLowerCase();
    const found = measurements.filter(({ label, device_name, origin, id }) => !word || [label, device_name, origin.format, id].join(" ").toLowerCase().includes(word));
    list.replaceChildren(...found.map((one) => {
      const facts = [
        one.step_time_s && `${seconds(one.step_time_s)} per step`, one.peak_bytes && bytes(one.peak_bytes), one.rows && `${count(one.rows)} rows`, one.kernels && `${count(one.kernels)} kernels`,
        one.device_name, one.status === "ok" ? "" : one.status, one.bundled ? "bundled" : when(one.created_s),
      ].filter(Boolean).join(" · ");
      const box = h("input", { type: "checkbox", id: `pick-${one.id}`, onchange: () => acts.onpick(one.id) });
      box.checked = pins.includes(`m:${one.id}`) || one.id === measured;
      box.disabled = one.id === measured;
      const open = one.step_time_s || one.kernels ? h("button", { type: "button", class: "link", text: "Explore", "aria-label": `Open ${one.label} in Explore`, onclick: () => acts.onopen(one.id) }) : null;
      return h("li", { "data-measurement": one.id }, box, h("div", {}, h("label", { for: box.id, text: one.label || one.id }), h("small", {}, facts, " ", open)));
    }));
    if (!found.length) list.replaceChildren(h("li", { class: "empty", text: measurements.length ? "Nothing has that name." : "Nothing measured yet: launch a run, or drop a file." }));
  }
  return acts;
}
