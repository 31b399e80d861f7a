/** Whose scenario the controls move, where that is neither A nor B: a profile's own is proposed, for one press. */
import { setScenario } from "../../actions.js";
import { confirmScenario, proposedIn } from "../../measurements.js";
import { describe, same } from "../../scenario.js";
import { state } from "../../state.js";
import { h } from "../common/dom.js";
import { trying } from "../common/toast.js";

export function createWhose() {
  const element = h("div", { class: "whose", role: "note", hidden: true });
  let said = "";

  function update() {
    const { pair, measurement, measuredScenario, scenario, catalog, problems } = state;
    element.hidden = !pair || Boolean(pair.edited) || !(pair.a || pair.b);
    if (element.hidden) return;
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
    const name = open?.label || "the profile";
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
            open && confirm(`${name} is this`, scenario),
          ]
      ).filter((one) => one instanceof HTMLElement),
    );
  }
  return { element, update };
}
