/** What plotly.js and some browsers add to the page's globals, as far as the page uses it. */

interface Plotly {
  react(at: HTMLElement, data: object[], layout: object, config: object): Promise<unknown>;
  toImage(
    figure: { data: object[]; layout: object },
    options: { format: "png" | "svg"; scale: number },
  ): Promise<string>;
  Plots: { resize(at: HTMLElement): void };
}

interface PlotlyClick {
  points: { curveNumber: number; pointNumber: number }[];
}

/** An element that plotly.js has drawn in; before that it has no events. */
interface PlotlyElement extends HTMLElement {
  on?(event: "plotly_click", heard: (click: PlotlyClick) => void): void;
}

interface Window {
  Plotly?: Plotly;
}

/** Chromium's; see views/common/queue.js. */
interface Navigator {
  scheduling?: { isInputPending?(options: { includeContinuous: boolean }): boolean };
}
