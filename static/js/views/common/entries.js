/** Entries of the catalogue in a list to choose from, by family. */
import { h } from "./dom.js";

/** What the value of an option of an own part begins with. */
export const OWN = "own:";

/** @param {import("../../types.js").Entry[]} entries */
export function options(entries) {
  /** @type {Map<string, HTMLOptionElement[]>} */
  const families = new Map();
  for (const { key, label } of entries) {
    const family = label.split(/[\s\-\d]/)[0];
    families.set(family, [...(families.get(family) ?? []), h("option", { value: key, text: label })]);
  }
  return [...families].flatMap(([family, some]) =>
    some.length > 1 && families.size > 1 ? [h("optgroup", { label: family }, some)] : some,
  );
}

/**
 * Choose a catalogue entry, or show an inline object as one more entry.
 * @param {HTMLSelectElement} select
 * @param {any} value
 */
export function selectOr(select, value) {
  const own = typeof value === "object" ? OWN + value.name : "";
  if (own && [...select.options].some((option) => option.value === own)) {
    select.querySelector("[data-custom]")?.remove();
    select.value = own;
    return;
  }
  const custom =
    typeof value === "object" ||
    ![...select.options].some((option) => option.value === value && !option.dataset.custom);
  select.querySelector("[data-custom]")?.remove();
  if (custom) {
    const text =
      typeof value === "object" ? `${value.label || value.name || "custom"} (as given)` : `${value} (unknown)`;
    select.prepend(h("option", { value: "", "data-custom": true, text }));
  }
  select.value = custom ? "" : value;
}
