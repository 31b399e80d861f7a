/** Values of fields as people say them. Pure. */

/** What the catalogue says of fields. @typedef {Record<string, {labels?: Record<string, string>}>} Fields */

/** Short words for choices; a choice without one is shown by its own name. @type {Record<string, string>} */
const WORDS = {
  ddp: "DDP",
  zero1: "ZeRO-1",
  zero2: "ZeRO-2",
  zero3: "ZeRO-3",
  fsdp: "FSDP",
  gpipe: "GPipe",
  "1f1b": "1F1B",
  "zero-bubble": "zero bubble (ZB-H1)",
  "zero-bubble-v": "zero bubble (ZB-V)",
  "1d": "1D",
  "2d": "2D",
  "2.5d": "2.5D",
  "3d": "3D",
  ulysses: "Ulysses",
  sdpa: "SDPA",
  flash1: "flash 1",
  "fp16-amp": "fp16 amp",
  "bf16-amp": "bf16 amp",
  grouped: "grouped products",
  loop: "one after another",
};

/** A value of a field as the panel says it. @param {string} value @param {Record<string, string>} [labels]  of the field's choices */
export const word = (value, labels = {}) =>
  labels[value] ?? WORDS[value] ?? (/^\w+(-\w+){3}$/.test(value) ? value.replaceAll("-", " · ") : value);

/** What choices of a plan's or a training's field are called. @param {string} name @param {Fields} fields */
export const labelsOf = (name, fields) =>
  ["plan", "training"].map((part) => fields[`${part}.${name}`]?.labels).find(Boolean) ?? {};

/** A field that has this value, in a few words. @param {string} name  of the field @param {any} value @param {Fields} fields */
export function wordOf(name, value, fields) {
  const labels = labelsOf(name, fields);
  if (Object.hasOwn(labels, value)) return labels[value];
  const said = name.replaceAll("_", " ");
  if (typeof value === "boolean") return `${value ? "" : "no "}${said}`;
  if (typeof value === "number") return `${said} ${value}`;
  if (name === "recompute") return value === "none" ? "no recompute" : `${word(String(value))} recompute`;
  if (["sharding", "schedule"].includes(name)) return word(String(value));
  return `${said} ${word(String(value))}`;
}
