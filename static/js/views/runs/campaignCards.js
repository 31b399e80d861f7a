/** Campaigns above the list of runs: how far each is, what is left, and its runs beside what they should take. */
import { api, ApiError } from "../../api.js";
import { campaignsOf, pointOf } from "../../campaigns.js";
import { campaignFigure } from "../../figures/campaign.js";
import { plural } from "../../format.js";
import { disturbance, stepTime } from "../../measured.js";
import { state } from "../../state.js";
import { arrange, colour, h, put } from "../common/dom.js";
import { FigureCard } from "../common/figure.js";

/** @param {number} left_s */
const wait = (left_s) =>
  left_s < 90
    ? `${Math.max(1, Math.round(left_s))} s`
    : left_s < 5400
      ? `${Math.round(left_s / 60)} min`
      : `${(left_s / 3600).toFixed(1)} h`;

export function createCampaigns() {
  const element = h("div", { class: "w12 column", id: "campaigns" });
  /** @type {Map<string, {card: FigureCard, bar: HTMLElement, progress: HTMLElement}>} */
  const cards = new Map();
  /** @type {Map<string, Promise<import("../../types.js").Measurement | null>>} */
  const measurements = new Map();
  const measurementOf = (/** @type {string} */ id) => {
    if (!measurements.has(id))
      measurements.set(
        id,
        api.measurement(id).catch((error) => (error instanceof ApiError ? null : Promise.reject(error))),
      );
    return /** @type {Promise<import("../../types.js").Measurement | null>} */ (measurements.get(id));
  };

  /** @param {string} name */
  function cardOf(name) {
    let found = cards.get(name);
    if (!found) {
      const card = new FigureCard({
        id: `campaign-${cards.size}`,
        title: name,
        height: 220,
        span: "",
        name: () => "headroom-campaign",
      });
      const bar = h("i");
      const progress = h(
        "div",
        {
          class: "progress",
          role: "progressbar",
          "aria-label": `${name}: runs done`,
          "aria-valuemin": 0,
          "aria-valuemax": 100,
        },
        bar,
      );
      card.plot.before(progress);
      found = { card, bar, progress };
      cards.set(name, found);
    }
    return found;
  }

  async function update() {
    const all = campaignsOf(state.runs ?? []);
    arrange(
      element,
      all.map(({ name }) => cardOf(name).card.element),
    );
    for (const { name, runs, done, left_s } of all) {
      const { card, bar, progress } = cardOf(name);
      const frac = done / runs.length;
      bar.style.width = `${100 * frac}%`;
      progress.setAttribute("aria-valuenow", String(Math.round(100 * frac)));
      progress.hidden = frac === 1;
      const left = left_s ? `about ${wait(left_s)} left` : "";
      put(card.sub, [`${done} of ${plural(runs.length, "run")}`, left].filter(Boolean).join(", "));
      const found = await Promise.all(runs.map(({ measurement_id: id }) => (id ? measurementOf(id) : null)));
      const points = runs.map((run, at) => ({
        name: pointOf(run, name),
        predicted_s: found[at]?.prediction?.step_time_s ?? null,
        measured_s: stepTime(found[at]),
        disturbed: disturbance(found[at]),
      }));
      card.later(() => campaignFigure({ points, colour }));
    }
  }
  return { element, update };
}
