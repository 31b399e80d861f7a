/**
 * Work that may wait: drawn after 100 ms without a change, one piece per frame, only where it can be seen, and never
 * while a key or pointer event is waiting. The newest piece of each owner replaces the older one. Once the page rests,
 * what cannot be seen takes its place, so that nothing moves under a reader who jumps there.
 */

/** @typedef {{seen: boolean}} Owner */
/** @typedef {{work: () => void, place: (() => void) | null}} Piece  `place`: what to do where it is not seen */

const QUIET_MS = 100;
const REST_MS = 300;
const FRAME_MS = 16;
/** @type {Map<Owner, Piece>} */
const waiting = new Map();
let timer = 0;
let resting = 0;
let scheduled = false;

/**
 * @param {Owner} owner @param {() => void} work
 * @param {() => void} [place]  gives it its height while it is not seen; `work` itself where that costs little
 */
export function later(owner, work, place) {
  waiting.set(owner, { work, place: place ?? null });
  clearTimeout(timer);
  timer = window.setTimeout(wake, QUIET_MS);
}

/** @param {Owner} owner */
export const forget = (owner) => waiting.delete(owner);

/** Go on with what waits, as after a card came into view. */
function wake() {
  if (scheduled || !waiting.size) return;
  scheduled = true;
  requestAnimationFrame(drain);
}

/** Whether nothing waits that can be seen or has no place yet. */
export const idle = () => ![...waiting].some(([owner, { place }]) => owner.seen || place);

// Chromium can tell; elsewhere a piece of work is short enough
const inputWaits = () => navigator.scheduling?.isInputPending?.({ includeContinuous: true });

function drain() {
  scheduled = false;
  clearTimeout(resting);
  if (inputWaits()) return wake();
  const next = [...waiting].find(([owner]) => owner.seen);
  if (!next) {
    resting = window.setTimeout(rest, REST_MS);
    return;
  }
  waiting.delete(next[0]);
  next[1].work();
  wake();
}

/** Give one piece that is not seen its place, and go on after a frame. */
function rest() {
  const next = [...waiting].find(([, { place }]) => place);
  if (!next) return;
  if (!inputWaits()) {
    const [owner, piece] = next;
    const { work, place } = piece;
    if (place === work) waiting.delete(owner);
    piece.place = null;
    place?.();
  }
  resting = window.setTimeout(rest, FRAME_MS);
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
