/** What the panel calls the fields that it has controls for, for places that name them too. */

/** @type {Map<string, string>} */
const known = new Map();

/** @param {string} path @param {string} label */
export const keepLabel = (path, label) => void known.set(path, label);

/** What a field is called; by its own name as long as no control has been made. @param {string} path */
export const labelOf = (path) => known.get(path) ?? (path.split(".")[1] ?? path).replaceAll("_", " ");
