/**
 * Measurements: all that can stand at A or B as one table, with its chart, from which the two are picked; and above it
 * the tables of an upload or a benchmark that was opened.
 */
import { setOpen, setTable, show } from "../../actions.js";
import { itemsFigure } from "../../figures/items.js";
import { plural } from "../../format.js";
import { columnsOf, grouped, itemsOf } from "../../items.js";
import { isTable } from "../../measured.js";
import { openMeasurement, refreshMeasurements, uploaded } from "../../measurements.js";
import { estimateOf } from "../../pair.js";
import { state, subscribe } from "../../state.js";
import { createDetails } from "../common/details.js";
import { byId, colour, h, narrow, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { trying } from "../common/toast.js";
import { createTableSave } from "../common/save.js";
import { createItemTable, itemsAsTable } from "./itemTable.js";

/** @param {HTMLElement} root */
export function createMeasurements(root) {
  const details = createDetails("details", (key) => setOpen(key));
  const close = h(
    "div",
    { class: "w12" },
    h("button", { type: "button", class: "link", text: "Close the table", onclick: () => setOpen("") }),
  );
  const up = h("select", { "aria-label": "Chart: up", onchange: () => setTable({ chart: [up.value, across.value] }) });
  const across = h("select", {
    "aria-label": "Chart: across",
    onchange: () => setTable({ chart: [up.value, across.value] }),
  });
  const axes = h("span", { class: "axes" }, up, " over ", across);
  const name = () => "headroom-measurements";
  const about = () => "";
  const chart = new FigureCard({
    id: "items-chart",
    title: "Chart",
    height: 252,
    span: "w12",
    name,
    about,
    actions: [axes],
    table: false,
  });
  const resize = chart.resize.bind(chart);
  // its labels have as many letters as there is room for
  chart.resize = () => {
    resize();
    if (chart.make) chart.later(chart.make);
  };
  const table = createItemTable();
  const find = h("input", {
    type: "text",
    placeholder: "Name, model, device, setting",
    "aria-label": "Filter measurements",
    oninput: () => setTable({ find: find.value }, "replace"),
  });
  const group = h("select", { "aria-label": "Group by", onchange: () => setTable({ group: group.value }) });
  const count = h("span", { class: "sub" });
  const columns = h("details", { class: "columns" });
  const ab = h("button", { type: "button", class: "primary", text: "Open A | B", onclick: () => show("explore") });
  const load = h("button", { type: "button", class: "ghost", text: "Import" });
  load.onclick = () => byId("import").click();
  /** @type {import("../../types.js").Table} */
  let whole = { columns: [], rows: [] };
  const save = createTableSave({ title: "Plans and measurements", name, tables: () => [whole] });
  const list = h(
    "section",
    { class: "card w12", id: "items" },
    h(
      "header",
      {},
      h("h3", { text: "Plans and measurements" }),
      count,
      h("span", { class: "acts tools" }, find, h("label", {}, "Group ", group), columns, save, load, ab),
    ),
    table.element,
  );
  const main = h(
    "main",
    { tabindex: -1 },
    h("h1", { class: "sr", text: "Measurements" }),
    h("h2", { class: "sr", text: "Items" }),
    details.element,
    close,
    list,
    chart.element,
  );
  root.append(main);
  /** @type {import("../../items.js").Item[][]} */
  let order = [];
  let listening = false;

  /** What is open: a link names it, or links of before pinned it. */
  function opened() {
    if (state.open) return state.open;
    const tables = new Set((state.measurements ?? []).filter(isTable).map(({ id }) => id));
    return state.pins.map((pin) => pin.slice(2)).find((id) => tables.has(id)) ?? "";
  }

  /** Step time of A where its scenario is known: nothing is subtracted from what nobody knows. */
  function stepOfA() {
    const a = state.pair?.a;
    const known = a?.predicted ? a.scenario : state.measurements?.find(({ id }) => `m:${id}` === a?.key)?.has_scenario;
    return a && known && !a.disturbed ? a.step_s : null;
  }

  function update() {
    if (state.view !== "measurements" || !state.measurements) return;
    const { measurements } = state;
    const open = opened();
    const id = measurements.some((one) => one.id === open) ? open : open.replace(/\.\d+$/, "");
    const there = measurements.some((one) => one.id === id);
    close.hidden = !there;
    void trying(details.update(there ? uploaded(id) : [], open));
    const items = itemsOf(state, estimateOf, stepOfA(), state.table.find !== "");
    const all = columnsOf(items);
    const groups = grouped(items, state.table);
    const shown = groups.flatMap((one) => one.items);
    put(count, shown.length < items.length ? `${shown.length} of ${items.length}` : plural(items.length, "item"));
    if (document.activeElement !== find) find.value = state.table.find;
    fillGroup(all);
    fillColumns(all);
    table.update(groups, all);
    whole = itemsAsTable(shown, table.shown(all));
    // an open table has its own figures
    if (there) chart.element.hidden = true;
    else drawChart(groups, all);
  }

  /** @param {HTMLSelectElement} box @param {[value: string, text: string][]} options @param {string} value */
  function fill(box, options, value) {
    const key = options.join();
    if (box.dataset.options !== key)
      box.replaceChildren(...options.map(([its, text]) => h("option", { value: its, text })));
    box.dataset.options = key;
    box.value = value;
  }

  /** @param {import("../../items.js").ItemColumn[]} all */
  function fillGroup(all) {
    const usable = all.filter(
      ({ key }) =>
        !["step_s", "delta", "error", "tokens_per_s", "mfu", "peak_bytes", "created_s", "predicted_s"].includes(key),
    );
    fill(
      group,
      [
        ["", "none"],
        ["file", "file"],
        ...usable.map(({ key, title }) => /** @type {[string, string]} */ ([key, title || key])),
      ],
      state.table.group,
    );
  }

  /** @param {import("../../items.js").ItemColumn[]} all */
  function fillColumns(all) {
    if (columns.contains(document.activeElement)) return;
    const chosen = new Set(table.shown(all).map(({ key }) => key));
    columns.replaceChildren(
      h("summary", { text: "Columns" }),
      h(
        "div",
        { class: "menu" },
        all.map(({ key, title }) => {
          const box = h("input", {
            type: "checkbox",
            checked: chosen.has(key),
            onchange: () => {
              if (box.checked) chosen.add(key);
              else chosen.delete(key);
              setTable({ columns: all.map((one) => one.key).filter((one) => chosen.has(one)) });
            },
          });
          return h("label", {}, box, " ", title || key);
        }),
      ),
    );
  }

  /** @param {{name: string, items: import("../../items.js").Item[]}[]} groups @param {import("../../items.js").ItemColumn[]} all */
  function drawChart(groups, all) {
    const numbers = all.filter((one) => one.number);
    const [wantedUp, wantedAcross] = state.table.chart;
    const pick = (/** @type {string} */ key) => all.find((one) => one.key === key) ?? null;
    const y = pick(wantedUp) ?? numbers[0];
    chart.element.hidden = !y;
    if (!y) return;
    const x = pick(wantedAcross);
    const option = (/** @type {import("../../items.js").ItemColumn} */ { key, title }) =>
      /** @type {[string, string]} */ ([key, title || key]);
    fill(up, numbers.map(option), y.key);
    fill(across, [["item", "each item"], ...all.filter(({ key }) => key !== "kind").map(option)], x?.key ?? "item");
    put(chart.sub, "click: B · hatched: predicted");
    chart.later(() => {
      requestAnimationFrame(listen);
      const figure = itemsFigure({ groups, up: y, across: x, colour, narrow: narrow(), width: chart.width });
      order = figure.order;
      chart.explain(figure.legend);
      return figure;
    });
  }

  /** Plotly gives elements their events with the first drawing. */
  function listen() {
    const plot = /** @type {PlotlyElement} */ (chart.plot);
    if (listening || !plot.on) return;
    listening = true;
    plot.on("plotly_click", ({ points: [point] }) => {
      const one = order[point.curveNumber]?.[point.pointNumber];
      if (one) table.pick("B", one);
    });
  }

  table.onopen = (item) => void trying(openMeasurement(item.key.slice(2)));
  const told = /** @type {const} */ ([
    "view",
    "measurements",
    "pins",
    "open",
    "table",
    "scenario",
    "pair",
    "answers",
    "a",
    "b",
  ]);
  subscribe([...told, "theme"], update);
  subscribe(["view"], () => void (state.view === "measurements" && trying(refreshMeasurements())));
  update();
}
