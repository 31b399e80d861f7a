/** The tray: every file on its way, what became of it, its warnings; and the window as drop target. */
import { setOwnModel } from "../../actions.js";
import { ApiError, api } from "../../api.js";
import { percent, plural, short } from "../../format.js";
import { openMeasurement, refreshMeasurements } from "../../measurements.js";
import { dropped, parcels } from "../../together.js";
import { chief, upload } from "../../upload.js";
import { isConfig, modelOf, traceOptions } from "./configFile.js";
import { announce, byId, h, icon } from "./dom.js";
import { documentOf, openDocument } from "./takeAlong.js";
import { toast, trying } from "./toast.js";
import { warningList } from "./warnings.js";

const AT_ONCE = 2;
const DONE_MS = 6000;
const EXPANDED = 3;
/** @type {(() => void)[]} */
const queue = [];
let active = 0;

function next() {
  while (active < AT_ONCE && queue.length) {
    active += 1;
    queue.shift()?.();
  }
}

/** @param {File[]} files */
export async function importFiles(files) {
  const found = await Promise.all(files.map(documentOf));
  files.forEach((file, at) => {
    const document = found[at];
    if (document) void open(document, file.name);
  });
  const rest = files.filter((_, at) => !found[at]);
  const configs = await Promise.all(rest.map(isConfig));
  rest.filter((_, at) => configs[at]).forEach((file) => void trying(openConfig(file)));
  for (const { body, name } of await parcels(rest.filter((_, at) => !configs[at]))) void importBlob(body, name);
}

/**
 * What this page wrote opens as it was; every other file is the server's to read.
 * @param {import("../../pageDocument.js").PageDocument} document
 * @param {string} name
 */
async function open(document, name) {
  await trying(
    openDocument(document, name).then(async (missing) => {
      await refreshMeasurements();
      toast(missing ? `Opened, with ${plural(missing, "measurement")} from the file` : "Opened");
    }),
  );
}
/** @param {string} text @param {string} name */
export const importText = (text, name) => importBlob(new Blob([text], { type: "text/plain" }), name);

/** A config.json becomes the model of the scenario, or is traced. @param {File} file */
async function openConfig(file) {
  const found = await modelOf(file);
  if (!found) return void traceFile(file);
  setOwnModel(found.model);
  toast(`${found.model.name}: ${short(found.parameters)} parameters`);
  return undefined;
}

/** Trace the model of a config.json that no closed form covers, on the server and without a GPU. @param {File} file */
export function traceFile(file) {
  const options = traceOptions();
  const word = `no closed form of it: tracing a step of ${options.batch} × ${options.seq} tokens, some ten seconds`;
  importBlob(file, file.name, { path: `/api/traces?${new URLSearchParams(options)}&`, word });
}

const closeAll = h("button", {
  type: "button",
  class: "close-all",
  text: "Close all",
  onclick: () => {
    for (const card of notices())
      /** @type {HTMLElement | null} */ (card.querySelector(".head button:not(.title)"))?.click();
  },
});
const notices = () => [...byId("tray").querySelectorAll(".import")];

/** Notices that a person unfolded. @type {WeakSet<Element>} */
const opened = new WeakSet();

/** @param {Element} card @param {boolean} yes */
function fold(card, yes) {
  card.classList.toggle("folded", yes);
  card.querySelector(".head .title")?.setAttribute("aria-expanded", String(!yes));
}

/** The newest notices stand open, older ones as their head; several can be closed at once. */
function arrange() {
  const cards = notices();
  cards.forEach((card, at) => fold(card, at >= EXPANDED && !opened.has(card)));
  if (cards.length > 1) byId("tray").prepend(closeAll);
  else closeAll.remove();
}

/** @param {Blob} blob @param {string} filename @param {{path?: string, word?: string}} [how] */
function importBlob(blob, filename, { path, word = "reading" } = {}) {
  const bar = h("i");
  const status = h("p", { class: "quiet", text: "waiting" });
  const close = h("button", { type: "button", "aria-label": `Cancel ${filename}` }, icon("close"));
  const body = h("div", {});
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
    body,
  );
  byId("tray").prepend(card);
  byId("tray").scrollTop = 0;
  arrange();
  title.onclick = () => {
    const folded = card.classList.contains("folded");
    if (folded) opened.add(card);
    else opened.delete(card);
    fold(card, !folded);
  };
  const remove = () => {
    card.remove();
    arrange();
  };
  let cancel = () => {
    queue.splice(queue.indexOf(start), 1);
    remove();
  };
  close.onclick = () => cancel();

  async function start() {
    /** @param {number} sent */
    const told = (sent) => {
      bar.style.width = `${100 * sent}%`;
      status.textContent = sent < 1 ? `sending, ${percent(sent)}` : word;
    };
    const sending = upload(blob, filename, told, path);
    cancel = sending.cancel;
    try {
      succeed(await sending.done);
    } catch (error) {
      fail(error instanceof ApiError ? error : new ApiError("The answer could not be read.", 0));
    } finally {
      cancel = remove;
      close.setAttribute("aria-label", `Dismiss ${filename}`);
      active -= 1;
      next();
    }
  }

  /** @param {import("../../upload.js").Imported} imported */
  async function succeed({ upload_id, measurements, warnings, same_as }) {
    bar.parentElement?.remove();
    status.className = "";
    const found = [plural(measurements.length, "measurement"), warnings.length && plural(warnings.length, "warning")];
    status.textContent = found.filter(Boolean).join(", ");
    if (warnings.length) body.append(warningList(warnings));
    if (same_as) body.append(twinOf(upload_id, same_as, remove));
    announce(`${filename} imported: ${status.textContent}`);
    await trying(refreshMeasurements());
    const first = chief(measurements);
    if (!first) return;
    await trying(openMeasurement(first.id));
    if (!warnings.length && !same_as) setTimeout(remove, DONE_MS);
  }

  /** @param {ApiError} error */
  function fail(error) {
    if (error.message === "Cancelled.") return remove();
    bar.parentElement?.remove();
    card.classList.add("failed");
    card.setAttribute("role", "alert");
    status.className = "";
    status.replaceChildren(h("b", { class: "worse", text: "Not imported. " }), error.message);
    return undefined;
  }
  queue.push(start);
  next();
}

/** The same file was there before: keep one. @param {string} id @param {string} before @param {() => void} done */
const twinOf = (id, before, done) =>
  h(
    "p",
    {},
    "The same file was imported before. ",
    h("button", {
      type: "button",
      class: "link",
      text: "Keep only that one",
      onclick: async () => {
        await trying(api.removeUpload(id).then(refreshMeasurements));
        await trying(openMeasurement(`${before}-0`));
        done();
      },
    }),
  );

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
