/** The list of all measurements, to pick from; what came in one file stands together. */
import { api } from "../../api.js";
import { bytes, count, seconds, when } from "../../format.js";
import { state } from "../../state.js";
import { comparedRun } from "./items.js";
import { h } from "../common/dom.js";
import { createRemove, forget } from "../common/remove.js";

/** @typedef {import("../../types.js").Summary} Summary */

export function createLibrary() {
  const list = h("ul", { class: "library" });
  const search = h("input", {
    type: "text",
    placeholder: "Filter by name, device, format",
    "aria-label": "Filter measurements",
    style: { width: "100%" },
    oninput: () => update(),
  });
  const element = h("section", {}, h("h2", { text: "Measurements" }), search, list);
  /** @type {Set<string>} */
  const unfolded = new Set();
  const acts = {
    element,
    update,
    onopen: (/** @type {string} */ _id) => {},
    onpick: (/** @type {string[]} */ _ids, /** @type {boolean} */ _on) => {},
  };
  const picked = (/** @type {Summary} */ { id }) => state.pins.includes(`m:${id}`) || id === comparedRun();

  /** What deletes an upload, where all that came in its file is shown. @param {Summary[]} some */
  function removal(some) {
    const upload = some[0].upload_id;
    const all = (state.measurements ?? []).filter(({ upload_id }) => upload_id === upload);
    if (!upload || all.length !== some.length) return null;
    const remove = () => api.removeUpload(upload).then(() => forget(all.map(({ id }) => id)));
    return createRemove(some[0].label, remove, "link");
  }

  /** @param {Summary} one */
  function line(one) {
    const facts = [
      one.step_time_s && `${seconds(one.step_time_s)} per step`,
      one.peak_bytes && bytes(one.peak_bytes),
      one.rows && `${count(one.rows)} rows`,
      one.kernels && `${count(one.kernels)} kernels`,
      one.device_name,
      one.status === "ok" ? "" : one.status,
      one.bundled ? "bundled" : when(one.created_s),
    ]
      .filter(Boolean)
      .join(" · ");
    const box = h("input", {
      type: "checkbox",
      id: `pick-${one.id}`,
      onchange: () => acts.onpick([one.id], box.checked),
    });
    box.checked = picked(one);
    box.disabled = one.id === comparedRun();
    const open =
      one.step_time_s || one.kernels
        ? h("button", {
            type: "button",
            class: "link",
            text: "Explore",
            "aria-label": `Open ${one.label} in Explore`,
            onclick: () => acts.onopen(one.id),
          })
        : null;
    return h(
      "li",
      { "data-measurement": one.id },
      box,
      h(
        "div",
        {},
        h("label", { for: box.id, text: one.label || one.id }),
        h("small", {}, facts, " ", open, " ", removal([one])),
      ),
    );
  }

  /** Several measurements of one file. @param {string} upload @param {Summary[]} some */
  function group(upload, some) {
    const box = h("input", {
      type: "checkbox",
      id: `pick-${upload}`,
      onchange: () =>
        acts.onpick(
          some.map(({ id }) => id),
          box.checked,
        ),
    });
    box.checked = some.every(picked);
    box.indeterminate = !box.checked && some.some(picked);
    const fold = h(
      "details",
      { open: unfolded.has(upload) },
      h("summary", { text: `${some.length} parts` }),
      h("ul", { class: "library" }, some.map(line)),
    );
    fold.addEventListener("toggle", () => (fold.open ? unfolded.add(upload) : unfolded.delete(upload)));
    const rows = some.reduce((sum, one) => sum + one.rows, 0);
    return h(
      "li",
      {},
      box,
      h(
        "div",
        {},
        h("label", { for: box.id, text: `${some[0].label} and ${some.length - 1} more` }),
        h("small", {}, `one file · ${count(rows)} rows · ${when(some[0].created_s)} `, removal(some)),
        fold,
      ),
    );
  }

  function update() {
    const { measurements } = state;
    if (!measurements) return;
    const word = search.value.trim().toLowerCase();
    /** @type {Map<string, Summary[]>} */
    const files = new Map();
    for (const one of measurements) {
      if (word && ![one.label, one.device_name, one.origin.format, one.id].join(" ").toLowerCase().includes(word))
        continue;
      const file = one.upload_id || one.id;
      files.set(file, [...(files.get(file) ?? []), one]);
    }
    const numeric = (/** @type {Summary} */ a, /** @type {Summary} */ b) =>
      a.id.localeCompare(b.id, "en", { numeric: true });
    list.replaceChildren(
      ...[...files].map(([upload, some]) => (some.length > 1 ? group(upload, some.sort(numeric)) : line(some[0]))),
    );
    if (!files.size)
      list.replaceChildren(
        h("li", {
          class: "empty",
          text: measurements.length ? "Nothing has that name." : "Nothing measured yet: launch a run, or drop a file.",
        }),
      );
  }
  return acts;
}
