/**
 * Whose scenario the controls move, where that is neither A nor B: a profile's own is proposed, for one press. Of a traced
 * program they move the catalogue's form.
 */
import { setScenario, setSides } from "../../actions.js";
import { seconds } from "../../format.js";
import { apart, isTraced } from "../../measured.js";
import { confirmScenario, proposedIn } from "../../measurements.js";
import { describe, same } from "../../scenario.js";
import { state } from "../../state.js";
import { h } from "../common/dom.js";
import { trying } from "../common/toast.js";

export function createWhose() {
  const element = h("div", { class: "whose", role: "note", hidden: true });
  let said = "";

  /** Of a traced program whose scenario is known: two predictions of it, of which the controls move one. */
  function tellForm() {
    const { pair, measurement, measuredScenario, scenario } = state;
    const { expected, prediction } = measurement ?? {};
    if (!pair?.edited || !measuredScenario || !isTraced(measurement) || !expected || !prediction) return false;
    if (apart(state, scenario)) return false;
    const there = [pair.a, pair.b].some((side) => side?.own);
    const key = [measurement?.id, there, same(measuredScenario, scenario)].join();
    element.hidden = false;
    if (key === said) return true;
    said = key;
    const form = seconds(prediction.step_time_s);
    const words = `These controls move the catalogue's form of it: ${same(measuredScenario, scenario) ? "" : "as it was traced "}${form}, its own ops ${seconds(expected.estimate.step_time_s)}, which are to be believed.`;
    element.replaceChildren(h("p", {}, h("b", { text: measurement?.label }), " is traced. ", words));
    if (!there)
      element.append(
        h("button", {
          type: "button",
          class: "link",
          text: "Its own ops as A",
          onclick: () => setSides(`m:${measurement?.id}`, "plan"),
        }),
      );
    return true;
  }

  function update() {
    const { pair, measurement, measuredScenario, scenario, catalog, problems } = state;
    if (tellForm()) return;
    element.hidden = !pair || Boolean(pair.edited) || !(pair.a || pair.b);
    if (element.hidden) {
      said = "";
      return;
    }
    const open = measurement && !measuredScenario ? measurement : null;
    const proposed = open && proposedIn(open);
    const its = Boolean(proposed && same(proposed, scenario));
    const words = describe(scenario, catalog);
    const key = [words, its, open?.id, Boolean(proposed), problems.length].join();
    if (key === said) return;
    said = key;
    /** @param {string} text @param {import("../../types.js").Scenario} of */
    const confirm = (text, of) =>
      h("button", {
        type: "button",
        class: its ? "primary" : "link",
        text,
        disabled: problems.length > 0,
        onclick: () => void trying(confirmScenario(of)),
      });
    const name = open?.label || "the measurement";
    element.replaceChildren(
      ...(its
        ? [
            h("p", {}, "Proposed from the shapes of ", h("b", { text: name }), ", not confirmed."),
            confirm("Confirm", scenario),
          ]
        : [
            h("p", {}, "These controls move ", h("b", { text: words }), ", which is neither A nor B."),
            proposed &&
              h("button", {
                type: "button",
                class: "primary",
                text: `What ${name} seems to be`,
                onclick: () => setScenario(proposed),
              }),
            // what runs no attention is of no scenario
            open && (open.proposed?.whole ?? true) && confirm(`${name} ran this plan`, scenario),
          ]
      ).filter((one) => one instanceof HTMLElement),
    );
  }
  return { element, update };
}
