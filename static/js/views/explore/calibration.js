/** Under which efficiencies predictions are: the shipped ones, or a calibration, made here of probes of one's own machine. */
import { setCalibration } from "../../actions.js";
import { api, ApiError } from "../../api.js";
import { percent, plural, said, when } from "../../format.js";
import { isCalled, isOfCpu } from "../../measured.js";
import { refreshMeasurements } from "../../measurements.js";
import { chipOf } from "../../scenario.js";
import { state, subscribe } from "../../state.js";
import { h, put } from "../common/dom.js";
import { reveal } from "../common/reveal.js";

const PROBES = "python -m runners probes --out probes.json";
/** Formats of measurements that tell what kernels, links and the host alone take. */
const TELLING = /probes|collectives|nccl|kineto/;
const MOST = 12;
/** Where the next page, which begins anew under another calibration, finds that it was chosen here: "made", or "chosen". */
const HERE = "calibration-here";

/** @param {"made" | "chosen"} how */
function noteHere(how) {
  try {
    sessionStorage.setItem(HERE, how);
  } catch {
    // without storage the page begins folded, as it does from a link
  }
}

/** How the calibration of this page was chosen by the one before it; "" where it was not. Said once. */
function takeHere() {
  try {
    const how = sessionStorage.getItem(HERE) ?? "";
    sessionStorage.removeItem(HERE);
    return how;
  } catch {
    return "";
  }
}

export function createCalibration() {
  const select = h("select", {
    id: "calibration",
    "aria-label": "Calibration",
    onchange: () => {
      noteHere("chosen");
      setCalibration(select.value);
    },
  });
  const facts = h("div", { class: "hint" });
  const list = h("div", { class: "probes" });
  const name = h("input", {
    type: "text",
    maxlength: 60,
    placeholder: "its name (optional)",
    "aria-label": "Name of the calibration",
  });
  const make = h("button", { type: "button", class: "ghost", text: "Calibrate", onclick: () => void calibrate() });
  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  const made = h("div", { class: "hint made", role: "status", tabindex: -1, hidden: true });
  const chosen = h("span", { class: "chosen" });
  const element = h(
    "details",
    { class: "unfold calibration", "data-part": "calibration" },
    h("summary", {}, h("b", { text: "Calibrated" }), chosen),
    h("p", {
      class: "hint",
      text: "Predictions are of a usual chip and host. A calibration makes them of your own, which a few minutes of probes measure.",
    }),
    select,
    facts,
    h("h3", { text: "Make one" }),
    list,
    h("div", { class: "row" }, name, make),
    problem,
    made,
  );
  /** @type {import("../../types.js").StoredCalibration[]} */
  let stored = [];

  /** Its time among the first, as those of one host differ by that alone. @param {import("../../types.js").StoredCalibration} one */
  const described = ({ name: own, device, created_s, constants, tables }) =>
    [
      own,
      created_s && when(created_s),
      device,
      plural(constants, "constant") + (tables ? ` and ${plural(tables, "table")} of tiles` : ""),
    ]
      .filter(Boolean)
      .join(" · ");

  async function refresh() {
    if (!element.open && !state.calibration) return;
    try {
      stored = await api.calibrations();
      if (element.open && !state.measurements) await refreshMeasurements();
      if (state.calibration) tell(await api.calibration(state.calibration));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
    update();
  }

  /** @param {import("../../types.js").Calibration} one */
  function tell({ device, host, errors, undetermined }) {
    const moved = errors.filter(({ before_frac, after_frac }) => after_frac !== before_frac);
    const rows = moved.map(({ group, before_frac, after_frac }) =>
      h("li", { text: `${group}: ${percent(before_frac)} → ${percent(after_frac)}` }),
    );
    const others = errors.filter((one) => !moved.includes(one)).map(({ group }) => group);
    const lacks = undetermined.map(({ constant }) => constant).join(", ");
    facts.replaceChildren(
      h("p", { text: `For ${device}; host ${host || "not told"}.` }),
      ...(rows.length
        ? [h("p", { text: "Median error of probes that were held back, shipped → calibrated:" }), h("ul", {}, rows)]
        : []),
      ...(others.length ? [h("p", { text: `As shipped, which met theirs as well: ${others.join(", ")}.` })] : []),
      ...(lacks
        ? [
            h("p", {
              text: `${plural(undetermined.length, "constant")} as shipped: not probed, or no better.`,
              title: lacks,
            }),
          ]
        : []),
    );
  }

  /** Whether a device is the chip that predictions are of. @param {string} device */
  function isShown(device) {
    const { scenario, catalog } = state;
    const chip = catalog.chips.find(({ key }) => key === chipOf(scenario, catalog).name);
    return Boolean(chip && isCalled(chip, device));
  }

  /** Say which one predictions are under, and where it is of another chip than theirs, which then does not take it. */
  function tellChosen() {
    const { calibration } = state;
    const own = stored.find(({ id }) => id === calibration);
    const idle = own?.device && !isShown(own.device) ? "not used, of another chip: " : "";
    put(chosen, own ? idle + described(own) : calibration ? "not on this server" : "shipped efficiencies");
  }

  function update() {
    const { calibration, measurements } = state;
    const known = stored.some(({ id }) => id === calibration);
    select.replaceChildren(
      h("option", { value: "", text: "shipped efficiencies" }),
      ...(calibration && !known ? [h("option", { value: calibration, text: "not on this server" })] : []),
      ...stored.map((one) =>
        h("option", {
          value: one.id,
          text: described(one),
          title: `Made from ${one.made_from.join(", ")}; host ${one.host || "not told"}.`,
        }),
      ),
    );
    select.value = calibration;
    tellChosen();
    element.classList.toggle("set", calibration !== "");
    const all = (measurements ?? []).filter(({ origin }) => TELLING.test(origin.format));
    // those of the chip that is shown first: of others, predictions here take no calibration
    const telling = all
      .filter((one) => !isOfCpu(one))
      .sort((a, b) => Number(isShown(b.device_name)) - Number(isShown(a.device_name)))
      .slice(0, MOST);
    const checked = new Set(picked());
    list.replaceChildren(
      ...telling.map(({ id, label, device_name, origin, bundled, created_s }) =>
        h(
          "label",
          {},
          h("input", { type: "checkbox", value: id, checked: checked.has(id) }),
          h(
            "span",
            { title: [label || id, origin.format].join(", ") },
            label || id,
            h("small", { text: [device_name || "no device", !bundled && when(created_s)].filter(Boolean).join(" · ") }),
          ),
        ),
      ),
      ...(telling.length
        ? []
        : [
            h("p", { class: "hint" }, "Run this in Headroom's folder on the machine with the GPU, a few minutes:"),
            h("code", { text: PROBES }),
            h("p", { class: "hint" }, "and drop the file that it writes on this page."),
          ]),
      ...(all.some(isOfCpu)
        ? [h("p", { class: "hint", text: "A CPU takes no calibration: this server measures its own." })]
        : []),
    );
    name.hidden = make.hidden = !telling.length;
  }

  const picked = () => [...list.querySelectorAll("input")].filter((one) => one.checked).map((one) => one.value);

  async function calibrate() {
    problem.hidden = true;
    make.disabled = true;
    put(make, "Calibrating…");
    try {
      const ids = picked();
      if (!ids.length) throw new ApiError("Tick the measurements to calibrate with, all of one device.", 0);
      const { id } = await api.calibrate(ids, name.value.trim());
      noteHere("made");
      setCalibration(id);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      problem.hidden = false;
      const named = error.problems.map((one) => `${one.field}: ${said(one)}`);
      put(problem, named.join(" ") || error.message);
    } finally {
      make.disabled = false;
      put(make, "Calibrate");
    }
  }

  element.addEventListener("toggle", () => void refresh());
  subscribe(["measurements"], () => element.open && update());
  let shownChip = "";
  subscribe(["scenario"], () => {
    const { name } = chipOf(state.scenario, state.catalog);
    if (name !== shownChip && element.open) update();
    else tellChosen();
    shownChip = name;
  });

  /** Stay where the page was before it began anew: unfolded, and what was just made said where its button is. */
  async function stay(/** @type {string} */ how) {
    reveal("calibration");
    await refresh();
    const own = stored.find(({ id }) => id === state.calibration);
    if (how !== "made" || !own) return void select.focus();
    made.hidden = false;
    made.replaceChildren(h("p", {}, h("b", { text: "Made: " }), `predictions are under ${described(own)}.`), facts);
    made.focus();
  }

  const how = takeHere();
  // once the panel is on the page, and what begins with it is closed
  if (how) requestAnimationFrame(() => requestAnimationFrame(() => void stay(how)));
  else if (state.calibration) void refresh();
  update();
  return { element };
}
