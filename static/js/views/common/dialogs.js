/** Dialogs: keyboard shortcuts, and importing by file or by pasted text. */
import { h, icon } from "./dom.js";
import { copy } from "./toast.js";

/** @param {string} title @param {(Node | string)[]} body */
export function createDialog(title, body) {
  const element = h(
    "dialog",
    { "aria-label": title },
    h(
      "header",
      {},
      h("span", { text: title }),
      h(
        "button",
        { type: "button", class: "plain", "aria-label": "Close", onclick: () => element.close() },
        icon("close"),
      ),
    ),
    h("div", { class: "body" }, body),
  );
  element.addEventListener("click", (event) => {
    if (event.target === element) element.close(); // the backdrop belongs to the dialog itself
  });
  document.body.append(element);
  return element;
}

/** Shortcuts; those that do something are buttons too, for those who cannot press them. @param {import("../../keys.js").Shortcut[]} shortcuts */
export function createHelp(shortcuts) {
  const element = createDialog("Keyboard shortcuts", [
    h(
      "dl",
      { class: "keys" },
      shortcuts.flatMap(({ keys, does, act }) => [
        h(
          "dt",
          {},
          keys.map((key) => h("kbd", { text: key })),
        ),
        h(
          "dd",
          {},
          act
            ? h("button", {
                type: "button",
                class: "link",
                text: does,
                onclick: () => {
                  element.close();
                  act();
                },
              })
            : does,
        ),
      ]),
    ),
  ]);
  return element;
}

const CAPTURES = [
  [
    "PyTorch profiler trace",
    'with torch.profiler.profile(record_shapes=True) as prof: step()\nprof.export_chrome_trace("trace.json.gz")',
  ],
  [
    "Headroom's own runner, on any host with torch",
    "python -m runners step --scenario scenario.json --out result.json",
  ],
];

/**
 * @param {{files: (files: File[]) => void, text: (text: string, name: string) => void,
 *   preview: (text: string, name: string) => void}} send
 */
export function createImport({ files, text, preview }) {
  const picker = h("input", {
    type: "file",
    multiple: true,
    class: "sr",
    tabindex: -1,
    "aria-label": "Files to import",
    onchange: () => {
      files([...(picker.files ?? [])]);
      picker.value = "";
      element.close();
    },
  });
  const paste = h("textarea", {
    class: "paste",
    id: "paste",
    spellcheck: "false",
    placeholder:
      "Model      Params       Forward (s)     Backward (s)\nsmall_seq128 128,625,408 0.0250±0.0036 0.0383±0.0030",
  });
  const name = h("input", {
    type: "text",
    value: "pasted.txt",
    "aria-label": "Name of the pasted text",
    maxlength: 120,
  });
  const empty = h("p", {
    class: "hint",
    role: "alert",
    hidden: true,
    text: "Paste a table or a log into the box first.",
  });
  /** @param {(text: string, name: string) => void} take @param {boolean} [kept]  the text, for another try */
  const send = (take, kept = false) => {
    if (!paste.value.trim()) {
      empty.hidden = false;
      return paste.focus();
    }
    empty.hidden = true;
    take(paste.value, name.value.trim() || "pasted.txt");
    if (!kept) paste.value = "";
    return element.close();
  };
  const element = createDialog("Import", [
    h(
      "div",
      { class: "drop" },
      "Drop files anywhere on this page: traces of PyTorch or JAX, op lists, results, the config.json of a model, tables, logs.",
      h("button", { type: "button", class: "primary", text: "Choose files", onclick: () => picker.click() }),
      picker,
    ),
    h("label", {
      for: "paste",
      text: "Or paste a table as text (Ctrl+V does anywhere on the page): step times, attention, all-reduce, DDP",
    }),
    paste,
    empty,
    h(
      "div",
      { class: "row", style: { display: "flex", gap: "8px" } },
      name,
      h("button", { type: "button", class: "ghost", text: "Preview", onclick: () => send(preview, true) }),
      h("button", { type: "button", class: "primary", text: "Import text", onclick: () => send(text) }),
    ),
    h(
      "details",
      {},
      h("summary", { text: "How to capture" }),
      CAPTURES.map(([title, code]) =>
        h(
          "div",
          { style: { marginTop: "8px" } },
          h(
            "p",
            { class: "hint" },
            `${title} `,
            h("button", { type: "button", class: "link", text: "Copy", onclick: () => copy(code, "Copied") }),
          ),
          h("pre", { class: "block", text: code }),
        ),
      ),
    ),
  ]);
  return {
    element,
    /** @param {string} [text]  what somebody pasted beside it */
    open: (text) => {
      if (text) paste.value = text;
      element.showModal();
      paste.focus();
    },
  };
}
