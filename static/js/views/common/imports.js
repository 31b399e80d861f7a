/**
 * The tray: every file on its way. What then stays to be read is a line above the figures, so that it covers none. And the
 * window as drop target.
 */
import { openScenario, setOwnModel, show } from "../../actions.js";
import { ApiError, api } from "../../api.js";
import { percent, plural, short } from "../../format.js";
import { isOfCpu } from "../../measured.js";
import { openMeasurement, refreshMeasurements } from "../../measurements.js";
import { scenarioIn } from "../../scenarioFile.js";
import { state } from "../../state.js";
import { dropped, parcels } from "../../together.js";
import { chief, upload } from "../../upload.js";
import { isConfig, modelOf, nameOf, traceOptions } from "./configFile.js";
import { createPreview } from "./preview.js";
import { arrange, forgetLine, keepLine } from "./kept.js";
import { announce, byId, h, icon, put } from "./dom.js";
import { documentOf, openDocument } from "./takeAlong.js";
import { toast, trying } from "./toast.js";
import { warningList } from "./warnings.js";

const AT_ONCE = 2;
/** Between two questions how many traces of other pages come before this one's. */
const TURN_MS = 1500;
const DONE_MS = 6000;
/** More than any model of one's own takes. */
const MOST_SCENARIO_BYTES = 1 << 18;
/** `wait`: told whose turn it is, and how many come between. @typedef {{name: string, start: () => void, wait: (now: string, between: number) => void}} Waiting */

/** Files that take turns. @param {number} most  at once */
function createLine(most) {
  /** @type {Waiting[]} */
  const waiting = [];
  /** @type {Waiting[]} */
  const busy = [];
  function next() {
    for (let one; busy.length < most && (one = waiting.shift()); one.start()) busy.push(one);
    waiting.forEach((one, between) => one.wait(busy[0].name, between));
  }
  return {
    /** @param {Waiting} one */
    join(one) {
      waiting.push(one);
      next();
    },
    /** It has had its turn, or wants none any more. @param {Waiting} one */
    leave(one) {
      for (const some of [waiting, busy]) if (some.includes(one)) some.splice(some.indexOf(one), 1);
      next();
    },
  };
}
const files = createLine(AT_ONCE);
/** The server traces one at a time, which keeps no file waiting. */
const traces = createLine(1);

/**
 * Of several files the first that is there opens, and the others say so: the page does not move on under whoever reads.
 * @typedef {{opened: boolean}} Batch
 */

/** @param {File[]} given */
export async function importFiles(given) {
  /** @type {Batch} */
  const batch = { opened: false };
  const found = await Promise.all(given.map(documentOf));
  given.forEach((file, at) => {
    const document = found[at];
    if (!document) return;
    batch.opened = true;
    void open(document, file.name);
  });
  const others = given.filter((_, at) => !found[at]);
  const scenarios = await Promise.all(others.map(isScenario));
  batch.opened ||= scenarios.includes(true);
  const rest = others.filter((_, at) => !scenarios[at]);
  const configs = await Promise.all(rest.map(isConfig));
  rest.filter((_, at) => configs[at]).forEach((file) => void trying(openConfig(file, batch)));
  for (const { body, name } of await parcels(rest.filter((_, at) => !configs[at]))) importBlob(body, name, { batch });
}

/**
 * What this page wrote opens as it was; every other file is the server's to read.
 * @param {import("../../pageDocument.js").PageDocument} document
 * @param {string} name
 */
async function open(document, name) {
  await trying(
    openDocument(document, name).then(async ({ imported, refused }) => {
      await refreshMeasurements();
      const without = refused.length ? `, without ${refused.join("; ")}` : "";
      toast((imported ? `Opened, with ${plural(imported, "measurement")} from the file` : "Opened") + without);
    }),
  );
}
/** Open a scenario, where a text is one. @param {string} text @param {string} name @returns {boolean}  whether it is */
function openedScenario(text, name) {
  const found = scenarioIn(text, state.catalog);
  if (!found) return false;
  openScenario(found);
  toast(found.search ? `${name}: what is searched for` : `${name} is now the scenario`);
  return true;
}
/** @param {File} file */
const isScenario = async (file) => file.size <= MOST_SCENARIO_BYTES && openedScenario(await file.text(), file.name);

/** A config.json that was pasted: it becomes the model as if it were dropped. @param {string} text @returns {Promise<boolean>}  whether it is */
async function openedConfig(text) {
  const file = new File([text], "config.json", { type: "application/json" });
  if (!(await isConfig(file))) return false;
  await trying(openConfig(file));
  return true;
}

/** @param {string} text @param {string} name */
export const importText = async (text, name) =>
  openedScenario(text, name) ||
  (await openedConfig(text)) ||
  importBlob(new Blob([text], { type: "text/plain" }), name);

/** @type {ReturnType<typeof createPreview> | null} */
let preview = null;
/** What was imported before its columns were corrected. */
let replaced = "";

/**
 * Look at a text's tables before they are kept. @param {Blob} blob @param {string} name
 * @param {string} [instead]  upload that it replaces @param {string} [earlier]  what was said of its columns
 */
function openPreview(blob, name, instead = "", earlier = "") {
  replaced = instead;
  preview ??= createPreview((kept, its, columns) => {
    const before = replaced;
    importBlob(kept, its, {
      columns,
      path: `/api/uploads?${columns && `columns=${encodeURIComponent(columns)}&`}`,
      done: async () => {
        if (before) await trying(api.removeUpload(before).then(refreshMeasurements));
      },
    });
  });
  void trying(preview.open(blob, name, earlier));
}
/** @param {string} text @param {string} name */
export const previewText = async (text, name) =>
  openedScenario(text, name) ||
  (await openedConfig(text)) ||
  openPreview(new Blob([text], { type: "text/plain" }), name);

/** A config.json becomes the model of the scenario, or is traced. @param {File} file @param {Batch} [batch] */
async function openConfig(file, batch) {
  const found = await modelOf(file);
  if (!found) return void traceFile(file, batch);
  if (batch) batch.opened = true;
  setOwnModel(found.model);
  show("explore");
  toast(`${found.model.name}, ${short(found.parameters)} parameters, is now the model`);
  return undefined;
}

/** Trace the model of a config.json that no closed form covers, on the server and without a GPU. @param {File} file @param {Batch} [batch] */
export async function traceFile(file, batch) {
  const options = traceOptions();
  const word = `no closed form of it: tracing a step of ${options.batch} × ${options.seq} tokens, some ten seconds`;
  const ticket = Math.random().toString(36).slice(2);
  importBlob(file, await nameOf(file), {
    batch,
    path: `/api/traces?${new URLSearchParams({ ...options, ticket })}&`,
    word,
    line: traces,
    turn: async () => {
      const { before } = await api.traceTurn(ticket);
      return before ? `in the queue behind ${plural(before, "trace")} of another page` : "";
    },
  });
}

/** @param {Element} card @param {boolean} yes */
function fold(card, yes) {
  card.classList.toggle("folded", yes);
  card.querySelector(".title")?.setAttribute("aria-expanded", String(!yes));
}

/**
 * @param {Blob} blob @param {string} filename
 * @param {{path?: string, word?: string, columns?: string, line?: typeof files, batch?: Batch,
 *   turn?: () => Promise<string>, done?: () => Promise<void>}} [how]  `turn`: what it still waits for on the server, "" for
 *   nothing
 */
function importBlob(
  blob,
  filename,
  { path, word = "reading", columns = "", line = files, batch = { opened: false }, turn, done } = {},
) {
  const bar = h("i");
  const status = h("p", { class: "quiet", text: "waiting" });
  const close = h("button", { type: "button", class: "dismiss", "aria-label": `Cancel ${filename}` }, icon("close"));
  const acts = h("span", { class: "acts" });
  const body = h("div", { class: "body" });
  const title = h("button", {
    type: "button",
    class: "title",
    text: filename,
    title: filename,
    "aria-expanded": "true",
  });
  const card = h(
    "div",
    { class: "import", role: "status" },
    h("div", { class: "head" }, title, close),
    h("div", { class: "progress" }, bar),
    status,
    acts,
    body,
  );
  byId("tray").prepend(card);
  byId("tray").scrollTop = 0;
  title.onclick = () => fold(card, !card.classList.contains("folded"));
  const remove = () => {
    card.remove();
    arrange();
  };
  /** What is to be read leaves the tray. */
  const keep = () => {
    fold(card, true);
    keepLine(card, filename);
  };
  /** @type {Waiting} */
  const own = {
    name: filename,
    start: () => void start(),
    wait: (now, between) =>
      put(
        status,
        line === traces
          ? `in the queue: ${now} is traced first${between ? `, then ${plural(between, "other")}` : ""}`
          : "waiting",
      ),
  };
  let cancel = () => {
    line.leave(own);
    remove();
  };
  close.onclick = () => cancel();

  async function start() {
    let said = word;
    /** @param {number} sent */
    const told = (sent) => {
      bar.style.width = `${100 * sent}%`;
      put(status, sent < 1 ? `sending, ${percent(sent)}` : said);
    };
    const asking =
      turn &&
      setInterval(
        () =>
          void turn().then(
            (waits) => put(status, (said = waits || word)),
            () => {},
          ),
        TURN_MS,
      );
    const sending = upload(blob, filename, told, path);
    cancel = sending.cancel;
    try {
      const imported = await sending.done.finally(() => clearInterval(asking));
      succeed(imported);
    } catch (error) {
      fail(error instanceof ApiError ? error : new ApiError("The answer could not be read.", 0));
    } finally {
      cancel = remove;
      close.setAttribute("aria-label", `Dismiss ${filename}`);
      line.leave(own);
    }
  }

  /** @param {import("../../upload.js").Imported} imported */
  async function succeed({ upload_id, measurements: read, warnings, same_as }) {
    const twin = done ? "" : (same_as ?? "");
    // the first is kept with what was said of it; this one leaves, and its measurements are the first's
    if (twin) await trying(api.removeUpload(upload_id));
    const id = twin || upload_id;
    const measurements = read.map((one) => ({ ...one, id: one.id.replace(upload_id, id) }));
    bar.parentElement?.remove();
    status.className = "";
    const found = [plural(measurements.length, "measurement"), warnings.length && plural(warnings.length, "warning")];
    status.textContent = found.filter(Boolean).join(", ");
    const probes = measurements.length > 0 && measurements.every(({ origin }) => origin.format === "probes");
    if (probes)
      status.textContent += measurements.some(isOfCpu)
        ? " of probes of a CPU, which takes no calibration: a server measures its own. They are here to be looked at"
        : " of probes, for a calibration: Calibrated, in Explore, makes one of it";
    if (warnings.length) body.append(warningList(warnings));
    if (measurements.some(({ origin }) => origin.format === "text/table"))
      acts.append(
        h("button", {
          type: "button",
          class: "link",
          text: "Correct its columns",
          onclick: () => {
            remove();
            openPreview(blob, filename, id, columns);
          },
        }),
      );
    await done?.();
    if (twin) status.textContent += "; the same file was there already, and is what is shown";
    announce(`${filename} imported: ${status.textContent}`);
    await trying(refreshMeasurements());
    const first = chief(measurements);
    const opens = first && !batch.opened;
    if (opens) {
      batch.opened = true;
      await trying(openMeasurement(first.id));
    } else if (first)
      acts.prepend(
        h("button", {
          type: "button",
          class: "link",
          text: "Show",
          "aria-label": `Show ${filename}`,
          onclick: () => void trying(openMeasurement(first.id)),
        }),
      );
    if (opens && !warnings.length && !twin && !probes) {
      forgetLine(filename);
      setTimeout(remove, DONE_MS);
    } else keep();
  }

  /** @param {ApiError} error */
  function fail(error) {
    if (error.message === "Cancelled.") return remove();
    bar.parentElement?.remove();
    card.classList.add("failed");
    card.setAttribute("role", "alert");
    status.className = "";
    status.replaceChildren(h("b", { class: "worse", text: "Not imported: " }), error.message);
    keep();
    return undefined;
  }
  line.join(own);
}

/** Make the whole window a drop target for files. */
export function listenForDrops() {
  const has = (/** @type {DragEvent} */ { dataTransfer }) => dataTransfer?.types.includes("Files");
  let depth = 0;
  const mark = (/** @type {number} */ now) => {
    depth = Math.max(0, now);
    document.body.classList.toggle("dropping", depth > 0);
  };
  addEventListener("dragenter", (event) => has(event) && mark(depth + 1));
  addEventListener("dragleave", (event) => has(event) && mark(depth - 1));
  addEventListener("dragover", (event) => has(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    mark(0);
    if (!has(event)) return;
    event.preventDefault();
    if (event.dataTransfer) void dropped(event.dataTransfer).then(importFiles);
  });
}
