/** Studies: published figures reproduced by the model, from inputs that can be changed. */
import { setStudy } from "../../actions.js";
import { api, ApiError } from "../../api.js";
import { groupsOf, isPredicted, legendOf, studyFigure } from "../../figures/study.js";
import { plural, said } from "../../format.js";
import { set, state, subscribe } from "../../state.js";
import { colour, h, narrow, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";
import { ACCURACY_STUDY, createAccuracy } from "./accuracy.js";
import { createPathfinding, LIVE_GROUPS } from "./dse.js";
import { createSheet } from "../common/sheet.js";
import { createParallelism, WAYS_STUDY } from "./parallelism.js";
import { createStudyPages } from "./pages.js";
import { CAPACITIES, printedPeaks } from "../../studyPages.js";
import { createStudyForm } from "./form.js";
import { createStudyTable } from "./table.js";
import { REPORT_EVENT } from "../common/takeAlong.js";
import { trying } from "../common/toast.js";

/** @typedef {import("../../types.js").Study} Study */

/** The study that has a page of its own above its figures. */
const PATHFINDING = "deepflow-lstm";
/** Figures in sight; with more the page would be longer than two screens, where they stand one below the other sooner. */
const mostFigures = () => (narrow() ? 2 : 4);

/** @param {HTMLElement} root */
export function createStudies(root) {
  const list = h("ul", { class: "study-list" });
  const formBox = h("section", {});
  const sheet = createSheet("Study and its inputs", [
    h("section", {}, h("h2", { text: "Reference studies" }), list),
    formBox,
  ]);
  const pages = createStudyPages();
  const title = h("h3", {});
  const summary = h("p", { class: "hint" });
  const about = h(
    "section",
    { class: "card w12", id: "study-title", hidden: true },
    h("header", {}, title),
    summary,
    pages.row,
  );
  const problem = h("div", { class: "notices w12" });
  const drawings = h("div", { class: "study-drawings w12" });
  const more = h("details", { class: "more-figures" });
  const pathfinding = createPathfinding({ change: (settings) => setStudy(PATHFINDING, settings) });
  const ways = createParallelism();
  /** What is no reference study and has no inputs of its own. @type {Map<string, ReturnType<typeof createAccuracy>>} */
  const others = new Map([
    [WAYS_STUDY.name, ways],
    [ACCURACY_STUDY.name, createAccuracy()],
  ]);
  const table = createStudyTable({ name });
  const notes = h("ul", { class: "facts" });
  const noted = h(
    "details",
    { class: "card w12", id: "study-notes" },
    h("summary", {}, h("h3", { text: "Notes" })),
    notes,
  );
  [table.element, noted].forEach((one) => (one.hidden = true));
  const main = h(
    "main",
    { tabindex: -1 },
    h("h1", { class: "sr", text: "Studies" }),
    h("h2", { class: "sr", text: "Study" }),
    about,
    problem,
    drawings,
    pages.element,
    table.element,
    noted,
  );
  root.append(sheet.panel, main, sheet.button);
  /** @type {Study | null} */
  let answer = null;
  /** @type {{name: string, form: ReturnType<typeof createStudyForm>} | null} */
  let shown = null;
  /** @type {Map<string, FigureCard>} */
  let cards = new Map();
  let tabled = ""; // study whose figures stand in the table
  /** @type {AbortController | null} */
  let asking = null;

  const current = () =>
    state.studies?.find((one) => one.name === state.study) ?? (state.study ? undefined : state.studies?.[0]);

  function name() {
    return current()?.name ?? "study";
  }

  async function update() {
    if (state.view !== "studies") return;
    if (!state.studies) return void (await trying(api.studies().then((studies) => set({ studies }))));
    const info = current();
    const other = others.get(state.study);
    fillList(other ? state.study : (info?.name ?? ""));
    formBox.hidden = drawings.hidden = other !== undefined;
    for (const one of others.values()) if (one !== other) one.element.remove();
    if (other) return showOther(other);
    if (!info)
      return refuse(new ApiError(`There is no study of the name ${state.study}. Choose one of the list.`, 404));
    about.hidden = false;
    put(title, info.title);
    put(summary, info.summary);
    if (shown?.name !== info.name) {
      const form = createStudyForm({ info, change: (settings) => setStudy(info.name, settings) });
      shown = { name: info.name, form };
      formBox.replaceChildren(h("h2", { text: "Inputs" }), form.element);
    }
    shown.form.update(state.settings, []);
    if (info.name !== PATHFINDING) pathfinding.element.remove();
    else {
      if (!pathfinding.element.isConnected) drawings.before(pathfinding.element);
      void pathfinding.update(state.settings);
    }
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    try {
      answer = await api.study(info.name, state.settings, signal);
      if (signal.aborted) return;
      problem.replaceChildren();
      main.classList.remove("dim");
      draw();
    } catch (error) {
      if (signal.aborted || !(error instanceof ApiError)) return;
      refuse(error);
    }
    return undefined;
  }

  /** @param {ReturnType<typeof createAccuracy>} other */
  function showOther(other) {
    asking?.abort();
    for (const one of [about, table.element, noted]) one.hidden = true;
    pathfinding.element.remove();
    problem.replaceChildren();
    main.classList.remove("dim");
    pages.element.replaceChildren();
    if (!other.element.isConnected) main.append(other.element);
    return void other.update();
  }

  /** The last answer stays, dimmed, until the inputs are possible again. @param {ApiError} error */
  function refuse(error) {
    shown?.form.update(state.settings, error.problems);
    const texts = error.problems.map((one) => `${one.field.replaceAll("_", " ")}: ${said(one)}`);
    const text = texts.join(" ") || error.message;
    main.classList.add("dim");
    problem.replaceChildren(
      h("div", { class: "notice", role: "alert" }, h("b", { text: "This cannot be reproduced. " }), h("p", { text })),
    );
  }

  /** @param {string} chosen */
  function fillList(chosen) {
    list.replaceChildren(
      ...[...(state.studies ?? []), WAYS_STUDY, ACCURACY_STUDY].map((one) =>
        h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              class: "link",
              "aria-current": one.name === chosen && "true",
              onclick: () => setStudy(one.name, {}),
            },
            h("b", { text: one.name }),
            h("small", { text: one.title }),
          ),
        ),
      ),
    );
  }

  function draw() {
    if (!answer) return;
    table.element.hidden = false;
    table.update(answer.figures, answer.study !== tabled);
    pages.update(answer);
    tabled = answer.study;
    notes.replaceChildren(...answer.notes.map((text) => h("li", { text })));
    noted.hidden = !answer.notes.length;
    const live = answer.study === PATHFINDING ? LIVE_GROUPS : [];
    const groups = groupsOf(answer.series.filter(({ group }) => !live.includes(group)));
    const study = answer.study;
    const keys = [...groups.keys()].map((group) => `${study} ${group}`);
    if (keys.join() !== [...cards.keys()].join()) {
      cards = new Map([...groups.keys()].map((group, at) => [keys[at], createCard(group, at)]));
      const elements = [...cards.values()].map(({ element }) => element);
      const rest = elements.slice(mostFigures());
      more.replaceChildren(
        h("summary", { text: plural(rest.length, "more figure") }),
        h("div", { class: "study-drawings" }, rest),
      );
      more.open = false;
      drawings.replaceChildren(...elements.slice(0, mostFigures()), ...(rest.length ? [more] : []));
    }
    [...groups.values()].forEach((computed, at) => {
      const printed = computed[0].kind === "step" ? printedPeaks(answer?.figures ?? [], computed[0]) : null;
      const series = printed ? [...computed, printed] : computed;
      const capacity = computed[0].kind === "step" ? CAPACITIES[study] : undefined;
      const card = /** @type {FigureCard} */ (cards.get(keys[at]));
      card.explain(legendOf(series));
      const drawn = computed[0].kind === "bar" ? "hatched" : "dashed";
      put(card.sub, series.some(isPredicted) ? `${drawn}: predicted` : "");
      card.later(() => studyFigure({ series, colour, narrow: narrow(), capacity }));
    });
  }

  /** @param {string} group @param {number} at */
  function createCard(group, at) {
    const text = `${group[0].toUpperCase()}${group.slice(1)}`;
    return new FigureCard({ id: `study-figure-${at}`, title: text, height: 260, span: "", name });
  }

  root.addEventListener(REPORT_EVENT, () => {
    more.open = true;
    pathfinding.unfold();
  });
  subscribe(["view", "study", "settings", "studies", "online"], () => void (state.online && update()));
  subscribe(["scenario", "split"], () => state.study === WAYS_STUDY.name && update());
  subscribe(
    ["theme"],
    () => state.view === "studies" && (draw(), pathfinding.redraw(), others.forEach((one) => one.draw())),
  );
  void update();
  return { panel: sheet };
}
