// Runs before the first paint, as a classic script, so that no wrong theme flashes.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = null;
    try {
      chosen = localStorage.getItem("theme");
    } catch {
      // storage may be blocked; the system's preference then decides
    }
    document.documentElement.dataset.theme = chosen ?? (dark.matches ? "dark" : "light");
    document.dispatchEvent(new CustomEvent("themechange"));
  };
  apply();
  dark.addEventListener("change", apply);
})();
