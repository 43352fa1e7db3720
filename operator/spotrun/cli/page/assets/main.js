// @ts-check
/** Navigation between the list and one job, the stream of news, and the keys. */

import { fill, h } from "./dom.js";
import { fleetView } from "./fleet.js";
import { setClock } from "./format.js";
import { jobView } from "./job.js";

/** @typedef {import("./types").View} View */

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const crumbs = /** @type {HTMLElement} */ (document.getElementById("crumbs"));
const live = /** @type {HTMLElement} */ (document.getElementById("live"));
const notes = /** @type {HTMLElement} */ (document.getElementById("notes"));

/** @type {View | null} */
let view = null;

/**
 * Follow a stream; EventSource opens it again by itself after a lost connection.
 * @param {string} path
 * @param {(message: any) => void} onMessage
 * @returns {() => void}
 */
export function follow(path, onMessage) {
  const source = new EventSource(path);
  source.onopen = () => say("live", "open");
  source.onerror = () => say("the server does not answer", "lost");
  source.onmessage = (event) => {
    const message = JSON.parse(event.data);
    setClock(message.now);
    say("live", "open");
    if (message.notes) fill(notes, ...message.notes.map((/** @type {string} */ one) => h("p", {}, one)));
    onMessage(message);
  };
  return () => source.close();
}

/**
 * @param {string} text
 * @param {string} state
 */
function say(text, state) {
  if (live.textContent !== text) live.textContent = text;
  live.className = `live ${state}`;
}

function show() {
  view?.close();
  const parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const isJob = parts[0] === "job" && parts.length === 3;
  fill(notes);
  view = isJob ? jobView(parts[1], parts[2], follow) : fleetView(follow);
  document.title = isJob ? `${parts[2]} - spotrun` : "Training jobs - spotrun";
  fill(
    crumbs,
    isJob ? h("a", { href: "#/" }, "Jobs") : h("span", { "aria-current": "page" }, "Jobs"),
    isJob ? h("span", { class: "muted" }, "/") : null,
    isJob ? h("span", { "aria-current": "page" }, h("span", { class: "muted" }, `${parts[1]} / `), parts[2]) : null,
  );
  fill(main, view.element);
  window.scrollTo(0, 0);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (view?.key?.(event)) event.preventDefault();
});
window.addEventListener("hashchange", show);
show();
