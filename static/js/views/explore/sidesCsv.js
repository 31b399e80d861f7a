/** What is shown of A and B, as a file. */
import { csv } from "../../format.js";
import { isCurrent } from "../../pair.js";
import { sidesTable } from "../../sidesTable.js";
import { state } from "../../state.js";
import { download } from "../common/dom.js";
import { toast } from "../common/toast.js";
import { usdPerHour } from "./strip.js";

export function saveSides() {
  const { pair, catalog, difference } = state;
  if (!pair?.a && !pair?.b) return toast("Nothing stands at A or B yet.");
  const table = sidesTable(pair, {
    usd: [pair.a, pair.b].map((side) => usdPerHour(side ?? undefined).usd),
    causes: (isCurrent() && difference?.causes) || [],
    categories: catalog.categories,
  });
  return download("headroom-a-b.csv", csv(table));
}
