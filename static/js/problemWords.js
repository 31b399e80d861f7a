/** What the server says of a problem, in words of the page. Pure. */

/** Fields of the cluster as the panel calls them. @type {Record<string, string>} */
const CLUSTER = { "cluster.chips_per_node": "GPUs of a node", "cluster.nodes": "Nodes", "cluster.chips": "GPUs" };
/**
 * A problem in words of the page: its list stands here, and its fields have other names.
 * @param {import("./types.js").Problem} problem
 */
export function onPage({ field, message, remedy, remedy_kind }) {
  const said = Object.entries(CLUSTER).reduce((text, [path, label]) => text.replaceAll(path, label), remedy);
  const words = remedy_kind === "listed" ? "Choose one of the list." : said;
  return { field, message: CLUSTER[field] ? `${CLUSTER[field]}: ${message}` : message, remedy: words };
}
