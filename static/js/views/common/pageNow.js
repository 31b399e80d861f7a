/** The page as it is now, with what the server keeps beside its measurements. */
import { api } from "../../api.js";
import { pageDocument } from "../../pageDocument.js";
import { state } from "../../state.js";

/** Formats of files that say which ops ran. */
const OF_OPS = ["kineto", "ops", "chakra"];

/** @returns {Promise<import("../../pageDocument.js").PageDocument>} */
export async function pageNow() {
  const found = pageDocument(state);
  const { measurement, pair } = state;
  const own = [measurement, pair?.a?.measurement, pair?.b?.measurement].flatMap((one) =>
    one?.expected || (one?.proposed && OF_OPS.includes(one.origin.format)) ? [one.id] : [],
  );
  const lists = await Promise.all([...new Set(own)].map(async (id) => [id, await api.ops(id)]));
  return lists.length ? { ...found, op_lists: Object.fromEntries(lists) } : found;
}
