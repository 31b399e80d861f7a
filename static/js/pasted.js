/** Pasted text: whether it is a table. Pure. */

const BETWEEN = [/\t/g, /\|/g, /[,;](?! )/g, /, |; /g, /\S {2,}(?=\S)/g];

/**
 * Whether two lines or more, a number among them, have columns: as many separators of one kind in most of the lines.
 * @param {string} text
 */
export function isTable(text) {
  const lines = text
    .slice(0, 20_000)
    .split(/\r?\n/)
    .filter((line) => line.trim() && !/^[\s|:+=-]+$/.test(line))
    .slice(0, 40);
  if (lines.length < 2 || !/\d/.test(text)) return false;
  return BETWEEN.some((separator) => {
    const counts = lines.map((line) => line.match(separator)?.length ?? 0);
    return counts[0] > 0 && counts.filter((one) => one === counts[0]).length > lines.length / 2;
  });
}
