/** What the page knows in detail, one tab at a time; only the one that is open is drawn. */
import { h } from "../common/dom.js";

/**
 * @param {{key: string, title: string, element: HTMLElement, update: () => void}[]} parts
 */
export function createTabs(parts) {
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
  const panels = parts.map(({ key, element }) =>
    h("div", { role: "tabpanel", id: `panel-${key}`, "aria-labelledby": `tab-${key}` }, element),
  );
  const element = h("section", { class: "details w12", "aria-label": "Details" }, list, panels);
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
  }
  const update = () => parts.find(({ key }) => key === chosen)?.update();
  show();
  return { element, seen: false, update, updateAll: () => parts.forEach((part) => part.update()), open };
}
