// @ts-check
/**
 * Work that may wait: drawn after 60 ms without a change, one piece per frame, only where it can be seen, and never
 * while a key or pointer event is waiting. The newest piece of each owner replaces the older one.
 */

/** @typedef {{seen: boolean}} Owner */

const QUIET_MS = 60;
/** @type {Map<Owner, () => void>} */
const waiting = new Map();
let timer = 0;
let scheduled = false;

/** @param {Owner} owner @param {() => void} work */
export function later(owner, work) {
  waiting.set(owner, work);
  clearTimeout(timer);
  timer = window.setTimeout(wake, QUIET_MS);
}

/** @param {Owner} owner */
export const forget = (owner) => waiting.delete(owner);

/** Go on with what waits, as after a card came into view. */
export function wake() {
  if (scheduled || !waiting.size) return;
  scheduled = true;
  requestAnimationFrame(drain);
}

/** Whether nothing that can be seen waits to be drawn. */
export const idle = () => ![...waiting.keys()].some((owner) => owner.seen);

function drain() {
  scheduled = false;
  // Chromium can tell; elsewhere a piece of work is short enough
  const pending = /** @type {any} */ (navigator).scheduling?.isInputPending?.({ includeContinuous: true });
  if (pending) return wake();
  const next = [...waiting].find(([owner]) => owner.seen);
  if (!next) return;
  waiting.delete(next[0]);
  next[1]();
  wake();
}

/**
 * Keep `owner.seen` true while the element is on the screen or near it.
 * @param {Owner} owner
 * @param {Element} element
 */
export function watch(owner, element) {
  new IntersectionObserver(
    (entries) => {
      owner.seen = entries.at(-1)?.isIntersecting ?? false;
      if (owner.seen) wake();
    },
    { rootMargin: "120px" },
  ).observe(element);
}
