/** Which links join the chips: inside a node and between nodes, of the catalogue; the chip's own where nothing is chosen. */
import { setLink } from "../../actions.js";
import { quantity } from "../../format.js";
import { chipOf } from "../../scenario.js";
import { state } from "../../state.js";
import { h } from "../common/dom.js";

const PLACES = /** @type {const} */ ([
  ["link", "Link inside a node"],
  ["network", "Network between nodes"],
]);

export function createNetworks() {
  const rows = PLACES.map(([part, label]) => {
    const id = `cluster-${part}`;
    const select = h("select", { id, onchange: () => setLink(part, select.value) });
    return { part, select, element: h("div", { class: "choice" }, h("label", { for: id, text: label }), select) };
  });

  function update() {
    const { scenario, catalog } = state;
    const { nodes, chips_per_node } = scenario.cluster;
    for (const { part, select, element } of rows) {
      const given = scenario.cluster[part];
      // where there is nothing to join, the choice would do nothing
      element.hidden = !given && (part === "network" ? nodes < 2 : chips_per_node < 2);
      if (element.hidden || document.activeElement === select) continue;
      const usual = chipOf(scenario, catalog)[part];
      const own = catalog.links.find(({ key }) => key === (typeof usual === "string" ? usual : usual?.name));
      const said = (/** @type {import("../../types.js").Entry} */ { label, value }) =>
        `${label}, ${quantity(value.bytes_per_s, "bytes_per_s")}`;
      const inline = given && typeof given === "object" ? given : null;
      select.replaceChildren(
        h("option", { value: "", text: own ? `${said(own)} (the chip's)` : "the chip's" }),
        ...(inline ? [h("option", { value: "given", text: inline.label || inline.name || "as given" })] : []),
        ...catalog.links
          .filter((entry) => entry !== own)
          .map((entry) => h("option", { value: entry.key, text: said(entry) })),
      );
      select.value = inline ? "given" : typeof given === "string" && given !== usual ? given : "";
    }
  }
  const [link, network] = rows.map(({ element }) => element);
  return { link, network, update };
}
