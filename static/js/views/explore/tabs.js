/** What the page knows in detail, one tab at a time; only the one that is open is drawn. */
import { h, keepInSight, put } from "../common/dom.js";

/**
 * @param {{key: string, title: string, element: HTMLElement, update: () => void}[]} parts
 * @param {() => string} whose  whose step the tabs show, where that is neither A nor B
 */
export function createTabs(parts, whose) {
  let chosen = parts[0].key;
  const tabs = parts.map(({ key, title }) => {
    const tab = h("button", {
      type: "button",
      role: "tab",
      id: `tab-${key}`,
      "aria-controls": `panel-${key}`,
      text: title,
    });
    tab.onclick = () => open(key);
    return tab;
  });
  const list = h("div", { role: "tablist", "aria-label": "Details" }, tabs);
  const reveal = keepInSight(list, '[aria-selected="true"]');
  const panels = parts.map(({ key, element }) =>
    h("div", { role: "tabpanel", id: `panel-${key}`, "aria-labelledby": `tab-${key}` }, element),
  );
  const note = h("p", { class: "hint", role: "note", hidden: true });
  const element = h("section", { class: "details w12", "aria-label": "Details" }, list, note, panels);
  list.addEventListener("keydown", ({ key }) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (!way) return;
    const at = (parts.findIndex((part) => part.key === chosen) + way + parts.length) % parts.length;
    open(parts[at].key);
    tabs[at].focus();
  });

  /** @param {string} key */
  function open(key) {
    chosen = key;
    show();
    update();
  }
  function show() {
    parts.forEach(({ key }, at) => {
      tabs[at].setAttribute("aria-selected", String(key === chosen));
      tabs[at].tabIndex = key === chosen ? 0 : -1;
      panels[at].hidden = key !== chosen;
    });
    reveal();
  }
  function update() {
    put(note, whose());
    note.hidden = !note.textContent;
    parts.find(({ key }) => key === chosen)?.update();
  }
  show();
  return { element, seen: false, update, updateAll: () => parts.forEach((part) => part.update()), open };
}
