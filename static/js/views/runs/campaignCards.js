/** Campaigns above the list of runs: how far each is, what is left, and its runs beside what they should take. */
import { campaignsOf, pointOf } from "../../campaigns.js";
import { campaignFigure } from "../../figures/campaign.js";
import { plural } from "../../format.js";
import { refreshMeasurements } from "../../measurements.js";
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
    const isListed = (/** @type {string | null} */ id) => !id || state.measurements?.some((one) => one.id === id);
    // the list has a run's step in one line; it is asked for again where a run has ended since
    if (!all.every(({ runs }) => runs.every(({ measurement_id }) => isListed(measurement_id))))
      await refreshMeasurements();
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
      const points = runs.map((run) => {
        const found = state.measurements?.find(({ id }) => id === run.measurement_id);
        return {
          name: pointOf(run, name),
          predicted_s: found?.predicted?.step_time_s ?? null,
          measured_s: found?.step_time_s ?? null,
          disturbed: found?.disturbance ?? 0,
        };
      });
      card.later(() => campaignFigure({ points, colour }));
    }
  }
  return { element, update };
}
