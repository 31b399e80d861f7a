/** The page as one HTML file that opens anywhere without a network: figures with plotly.js inside, tables, the page's document. Pure. */
import { REPORT_ID } from "./pageDocument.js";

/** @typedef {{id: string, data: any[], layout: any}} DrawnFigure */

/** Text that may stand inside a script. @param {any} value */
const json = (value) => JSON.stringify(value).replaceAll("<", "\\u003c");
/** @param {string} text */
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

const STYLE = `
body { display: block; min-height: 0; }
main { max-width: 1240px; margin: 0 auto; }
main > * { grid-column: 1 / -1; }
@media (min-width: 1000px) { main > .w6 { grid-column: span 6; } }
.scroll, .scroll.tall { max-height: none; overflow: visible; }
.scroller::after { content: none; }
.skeleton { animation: none; }
.report-head { grid-column: 1 / -1; }
.report-head h1 { font-size: var(--text-l); font-weight: 650; }
.card { contain: none; break-inside: avoid; }
`;
const DRAW = `
for (const { id, data, layout } of JSON.parse(document.getElementById("figures").textContent))
  Plotly.newPlot(id, data, layout, { displayModeBar: false, responsive: true });
`;

/**
 * @param {{title: string, about: string, when: string, theme: string, css: string, body: string, figures: DrawnFigure[],
 *   plotly: string, page: import("./pageDocument.js").PageDocument}} parts  `body`: markup of the cards, of which each
 *   figure fills the element of its id
 */
export const reportHtml = ({ title, about, when, theme, css, body, figures, plotly, page }) => `<!doctype html>
<html lang="en" data-theme="${escaped(theme)}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>${escaped(title)}</title>
<style>${css.replaceAll("</style", "<\\/style")}${STYLE}</style>
</head>
<body>
<main>
<header class="report-head"><h1>${escaped(title)}</h1><p class="hint">${escaped(about)}</p><p class="hint">${escaped(when)}</p></header>
${body}
</main>
<script type="application/json" id="${REPORT_ID}">${json(page)}</script>
<script type="application/json" id="figures">${json(figures)}</script>
<script>${plotly.replaceAll("</script", "<\\/script")}</script>
<script>${DRAW}</script>
</body>
</html>
`;
