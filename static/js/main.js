/**
 * Starts the page: catalogue, state from the URL, the views, keys, drops, and what happens when the server
 * goes.
 */
import { pinScenario, readUrl, select, setWanted, show, swapSides, undo } from "./actions.js";
import { api, ApiError } from "./api.js";
import { listen, listenForTables } from "./keys.js";
import { anewAmong, isUnchanged } from "./measured.js";
import { loadMeasurement, onlyHere, refreshMeasurements } from "./measurements.js";
import { startPairing } from "./pair.js";
import { predict, startPredicting } from "./predict.js";
import { complete } from "./scenario.js";
import { standsOn } from "./sides.js";
import { joined, set, state, subscribe } from "./state.js";
import { decode, unknownIn, VIEWS } from "./url.js";
import { createHelp, createImport } from "./views/common/dialogs.js";
import { tellCuts } from "./views/common/cut.js";
import { byId, h, keepInSight } from "./views/common/dom.js";
import { importFiles, importText, listenForDrops, previewText } from "./views/common/imports.js";
import { reveal } from "./views/common/reveal.js";
import { createSave } from "./views/common/save.js";
import { hasAsked } from "./views/common/measureAgain.js";
import { savePage, saveReport } from "./views/common/takeAlong.js";
import { createPalette } from "./views/common/palette.js";
import { createGlossary, explainTerms } from "./views/common/terms.js";
import { createTour } from "./views/common/tour.js";
import { copy, notice, toast, trying } from "./views/common/toast.js";

/** @typedef {{tour: () => void, choose: (letter: "A" | "B") => void}} Acts  what the page does for its views */
/** @typedef {(root: HTMLElement, acts: Acts) => {panel: ReturnType<typeof import("./views/common/sheet.js").createSheet>} | void} Create */
/** Views, loaded when somebody goes for them. @type {Record<string, () => Promise<Create>>} */
const LOADS = {
  explore: async () => (await import("./views/explore/explore.js")).createExplore,
  search: async () => (await import("./views/search/search.js")).createSearch,
  runs: async () => (await import("./views/runs/runs.js")).createRuns,
  measurements: async () => (await import("./views/measurements/measurements.js")).createMeasurements,
  studies: async () => (await import("./views/studies/studies.js")).createStudies,
};

const RETRY_MS = 3000;
const PENDING_MS = 2000;

/** @param {string} view */
const labelOf = (view) => (view === "measurements" ? "Measured" : `${view[0].toUpperCase()}${view.slice(1)}`);

function showView() {
  for (const view of VIEWS) byId(view).hidden = view !== state.view;
  for (const link of document.querySelectorAll(".tabs [data-view]")) {
    if (link instanceof HTMLElement && link.dataset.view === state.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${labelOf(state.view)} · Headroom`;
}

let retrying = 0;
function showBanner() {
  const banner = byId("banner");
  banner.hidden = state.online;
  clearInterval(retrying);
  if (state.online) return;
  const retry = () => trying(api.health());
  banner.replaceChildren(
    h("b", { text: "The server does not answer." }),
    h("span", { text: "What you see is the last it sent; trying again." }),
    h("button", { type: "button", class: "ghost", text: "Retry now", onclick: retry }),
  );
  retrying = window.setInterval(retry, RETRY_MS);
}

function toggleTheme() {
  const { dataset } = document.documentElement;
  dataset.theme = dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("theme", dataset.theme);
  } catch {
    // without storage the choice lasts as long as the page
  }
  document.dispatchEvent(new CustomEvent("themechange"));
}

/** Whether a chip is still being measured. @param {import("./types.js").Catalog} catalog */
const isComing = ({ pending, measuring }) =>
  measuring || pending?.some(({ state: now }) => now === "waiting" || now === "probing");

let asking = 0;
function awaitPending() {
  if (!asking && isComing(state.catalog)) asking = window.setTimeout(refreshPending, PENDING_MS);
}

/**
 * A chip that is still being measured enters the catalogue when it is there. One that the page had predictions of stays
 * as it was: all of them are of before until the page begins anew, at once where it was asked here to be measured again.
 */
async function refreshPending() {
  asking = 0;
  const catalog = await api.catalog().catch(() => state.catalog);
  const keys = anewAmong(state.catalog.chips, catalog.chips);
  const anew = keys.length > 0;
  if (hasAsked() && isUnchanged(state.catalog, catalog))
    toast("Measured again, with no more of the CPU than before: nothing changes.");
  set({ catalog: anew ? { ...state.catalog, measuring: catalog.measuring } : catalog });
  if (anew) showAnew(keys);
  awaitPending();
}

/** Show what was measured anew: at once where that was asked for here, else once something of it stands here. @param {string[]} keys */
function showAnew(keys) {
  if (hasAsked() && !isTyping()) return location.reload();
  untold = keys.filter((key) => !told.has(key));
  return tellAnew();
}

/** Chips that were measured anew, of which nobody was told. @type {string[]} */
let untold = [];
/** @type {Set<string>} */
const told = new Set();
function tellAnew() {
  if (!state.catalog || !standsOn(untold, state)) return;
  untold.forEach((key) => told.add(key));
  untold = [];
  notice("All that stands here of it is of before.", {
    title: "This CPU was measured anew",
    act: h("button", { type: "button", class: "ghost", text: "Show it anew", onclick: () => location.reload() }),
  });
}

/** Whether somebody is in the middle of something that a new page would lose. */
const isTyping = () =>
  Boolean(document.querySelector("dialog[open]")) ||
  /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");

async function start() {
  // beside the catalogue rather than after it; whether it came is seen below
  const asked = new URLSearchParams(location.search).get("view") ?? "explore";
  if (Object.hasOwn(LOADS, asked)) LOADS[asked]().catch(() => {});
  /** @type {import("./types.js").Catalog} */
  const catalog = await api.catalog();
  const base = complete(catalog.sample?.scenario ?? catalog.default_scenario, catalog);
  const sample = catalog.sample?.measurement_id ?? "";
  const opened = decode(location.search, base, sample).view;
  const first = await LOADS[opened]();
  set({ catalog, base, sample });
  const unknown = unknownIn(location.search, base);
  readUrl();
  const tour = createTour(() => make("explore"));
  const acts = { tour: tour.start, choose: (/** @type {"A" | "B"} */ letter) => palette.side(letter) };
  const glossary = createGlossary();
  explainTerms();
  tellCuts();
  /** @type {{open: (yes: boolean) => void}[]} */
  const panels = [];
  const keep = (/** @type {ReturnType<Create>} */ view) => void (view && panels.push(view.panel));
  keep(first(byId(opened), acts));
  /** Views that are there or on their way. @type {Map<string, Promise<void>>} */
  const made = new Map([[opened, Promise.resolve()]]);
  /** @param {string} view */
  async function add(view) {
    const create = await LOADS[view]().catch(() => null);
    if (create) return keep(joined(() => create(byId(view), acts)));
    // asked for again when it is opened again, or when the server is back
    made.delete(view);
    if (state.view !== view) return undefined;
    toast(`${labelOf(view)} could not be loaded.`);
    return trying(api.health());
  }
  /** Make a view that did not begin with the page, once; done when it is there. @param {string} view */
  function make(view) {
    const known = made.get(view) ?? add(view);
    made.set(view, known);
    return known;
  }
  subscribe(["view", "online"], () => void make(state.view));
  showView();
  subscribe(["view"], showView);
  for (const row of document.querySelectorAll(".tabs"))
    subscribe(["view"], keepInSight(/** @type {HTMLElement} */ (row), "[aria-current]"));
  subscribe(["view"], () => panels.forEach(({ open }) => open(false)));
  subscribe(["measured"], () => void trying(loadMeasurement()));
  if (state.measured) void trying(loadMeasurement());
  startPredicting();
  startPairing();
  listenForDrops();
  if (unknown.length)
    notice(`This link says ${unknown.join(", ")}, which this page does not know; the rest of it is shown.`);
  const importing = createImport({ files: importFiles, text: importText, preview: previewText });
  const tellLost = () =>
    state.lost &&
    notice(
      `The measurement ${state.lost} of this link is not on this server; the plan is shown without it. Send the saved report instead, as HTML or JSON: it brings the measurement along.`,
    );
  subscribe(["lost"], tellLost);
  tellLost();
  const copyLink = () => {
    const here = onlyHere(state);
    const { a = null, b = null } = state.pair ?? {};
    const letters = [a, b].flatMap((side) =>
      here.includes(side?.item.measurement ?? side?.item.expected ?? "") ? [side?.letter] : [],
    );
    const what = letters.length === 1 ? `${letters[0]} is a measurement` : "Its measurements are";
    return copy(
      location.href,
      here.length
        ? `Link copied. ${what} of this server alone: to open it elsewhere send the report, HTML or JSON.`
        : "Link copied",
    );
  };
  const saveAB = () => void import("./views/explore/sidesCsv.js").then(({ saveSides }) => saveSides());
  /** @type {import("./keys.js").Shortcut[]} */
  const shortcuts = [
    { keys: ["1"], does: "Explore", act: () => show("explore") },
    { keys: ["2"], does: "Runs", act: () => show("runs") },
    { keys: ["3"], does: "Measured", act: () => show("measurements") },
    { keys: ["4"], does: "Studies", act: () => show("studies") },
    { keys: ["s"], does: "Search", act: () => show("search") },
    { keys: ["/"], does: "find a model", act: () => palette.model() },
    { keys: ["←", "→"], does: "move the focused slider to the next legal value" },
    {
      keys: ["p"],
      does: "pin this plan, to choose it as A or B",
      act: () => {
        pinScenario();
        toast("Pinned");
      },
    },
    { keys: ["u"], does: "import files or text", act: () => importing.open() },
    { keys: ["c"], does: "copy a link to this state", act: copyLink },
    {
      keys: ["r"],
      does: "save this page as a report (HTML)",
      words: "export download",
      act: () => void trying(saveReport()),
    },
    {
      keys: ["j"],
      does: "save this page as JSON, to open again",
      words: "export download",
      act: () => void trying(savePage()),
    },
    { keys: ["t"], does: "light or dark", act: toggleTheme },
    { keys: ["g"], does: "terms, with formula and source", act: () => glossary.showModal() },
    { keys: ["o"], does: "one-minute tour", act: tour.start },
    { keys: ["?"], does: "this list", act: () => help.showModal() },
    { keys: ["x"], does: "swap A and B", words: "compare", act: swapSides },
    { keys: ["a"], does: "choose A", words: "compare", act: () => palette.side("A") },
    { keys: ["b"], does: "choose B", words: "compare", act: () => palette.side("B") },
    { keys: ["v"], does: "A and B as CSV", words: "compare export download table", act: saveAB },
    { keys: ["Ctrl K"], does: "commands: settings, sweeps, models, chips, measurements, actions" },
    { keys: ["Ctrl V"], does: "import the table in the clipboard" },
    { keys: ["Ctrl Z"], does: "undo", act: undo },
    { keys: ["Esc"], does: "close what is open, and show all causes" },
  ];
  const help = createHelp(shortcuts);
  const wanted = /** @type {[string, string, string][]} */ ([
    ["cost", "search the cheapest plan", "price chips budget"],
    ["step_time", "search the fastest plan", "quickest"],
    ["memory", "search the plan with the least memory", "smallest"],
  ]);
  const searches = wanted.map(([objective, does, words]) => ({
    keys: [],
    does,
    words,
    act: () => {
      show("search");
      setWanted({ objective });
    },
  }));
  const palette = createPalette([...shortcuts, ...searches], {
    found: () => {
      if (state.view !== "search" && state.view !== "studies") show("explore");
    },
    reveal: (path) => {
      show("explore");
      // once the page is there, and panels of before are closed
      void make("explore").then(() => requestAnimationFrame(() => requestAnimationFrame(() => reveal(path))));
    },
  });
  listen(shortcuts);
  listenForTables(importing.open);
  byId("find").onclick = () => palette.model();
  byId("commands").onclick = () => palette.open();
  byId("import").onclick = () => importing.open();
  byId("copy-link").onclick = copyLink;
  byId("save-page").append(
    createSave({
      title: "Page",
      mark: "save",
      choices: [
        ["Link", copyLink],
        ["Report (HTML)", saveReport],
        ["JSON", savePage],
        ["A and B (CSV)", saveAB],
      ],
    }),
  );
  byId("theme").onclick = toggleTheme;
  byId("help").onclick = () => help.showModal();
  for (const link of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-view]"))) {
    const view = link.dataset.view ?? "explore";
    // who points at a link soon presses it
    for (const nears of ["pointerenter", "focus"]) link.addEventListener(nears, () => void make(view));
    link.addEventListener("click", (event) => {
      const { ctrlKey, metaKey, shiftKey } = event;
      if (ctrlKey || metaKey || shiftKey) return;
      event.preventDefault();
      show(view);
    });
  }
  addEventListener("popstate", readUrl);
  addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, target } = event;
    // commands are found from every field
    if (key === "k" && (ctrlKey || metaKey) && !document.querySelector("dialog[open]")) {
      event.preventDefault();
      palette.open();
    }
    if (target instanceof HTMLTextAreaElement) return;
    if (target instanceof HTMLInputElement && !/^(range|radio|checkbox)$/.test(target.type)) return;
    if (key === "Escape" && state.selected && !document.querySelector("dialog[open]")) select(state.selected);
    if (key === "z" && (ctrlKey || metaKey)) {
      event.preventDefault();
      undo();
    }
  });
  // another tab may have imported or measured something
  addEventListener("focus", () => void trying(refreshMeasurements()));
  document.addEventListener("themechange", () => set({ theme: state.theme + 1 }));
  subscribe(["online"], () => {
    showBanner();
    if (state.online) void trying(Promise.all([predict(), loadMeasurement(), refreshMeasurements()]));
  });
  void trying(refreshMeasurements());
  subscribe(["catalog"], awaitPending);
  subscribe(["pair", "scenario"], tellAnew);
  awaitPending();
}

async function begin() {
  try {
    await start();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const banner = byId("banner");
    banner.hidden = false;
    banner.replaceChildren(
      h("b", { text: "Headroom cannot start." }),
      h("span", { text: error.message }),
      h("button", { type: "button", class: "ghost", text: "Retry", onclick: () => location.reload() }),
    );
  }
}
void begin();
