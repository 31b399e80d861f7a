/** What a reader of a measurement must know, as its importer or its run noted it. */
import { h } from "./dom.js";

/** @param {{code: string, message: string, where: string}[]} warnings */
export const warningList = (warnings) =>
  h(
    "ul",
    { class: "warnings" },
    warnings.map(({ code, message, where }) =>
      h(
        "li",
        {},
        h("code", { text: code }),
        ` ${message}`,
        where ? h("span", { class: "quiet", text: ` (${where})` }) : null,
      ),
    ),
  );
