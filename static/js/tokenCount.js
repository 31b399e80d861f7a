/** Numbers of tokens as people write them, as in 1 T or 300 B. Pure. */

/** @type {Record<string, number>} */
const SCALES = { k: 1e3, m: 1e6, b: 1e9, t: 1e12 };

/** What a text says, 0 where it says none. @param {string} text */
export function tokensIn(text) {
  const found = /^\s*([\d.]+(?:e\d+)?)\s*([kmbt]?)\s*$/i.exec(text);
  const scale = SCALES[found?.[2].toLowerCase() ?? ""] ?? 1;
  return found && Number.isFinite(Number(found[1])) ? Number(found[1]) * scale : 0;
}
