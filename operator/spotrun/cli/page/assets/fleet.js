// @ts-check
/** The list: all jobs by state and dollars, and the pools that their nodes come from. */

import { fill, h, meter } from "./dom.js";
import { ago, clock, count, span, usd } from "./format.js";
import { drawLimits } from "./limits.js";

/** @typedef {import("./types").JobRow} JobRow */
/** @typedef {import("./types").PoolRow} PoolRow */
/** @typedef {import("./types").LimitRow} LimitRow */
/** @typedef {import("./types").FleetMessage} FleetMessage */

const NARROW = matchMedia("(max-width: 720px)");
const MARGIN = 8; // rows outside the window that are drawn too
const PHASES = ["Running", "Recovering", "Pending", "Starting", "Suspended", "Failed", "Succeeded", "NotSeen"];

/** @type {[string, string, string, (row: JobRow) => string | number | null][]} */
const COLUMNS = [
  ["name", "Job", "", (row) => row.key],
  ["trouble", "State", "", (row) => row.severity],
  ["workers", "Workers", "number", (row) => -row.running],
  ["progress", "Progress", "", (row) => -(share(row) ?? -1)],
  ["left", "Left", "number", (row) => row.eta ?? Infinity],
  ["rate", "$/h", "number", (row) => -row.usdPerHour],
  ["cost", "Cost", "number", (row) => -(row.usd ?? -1)],
  ["saved", "Saved", "number", (row) => -(row.savedUsd ?? -1)],
  ["losses", "Losses", "number", (row) => -row.losses],
  ["age", "Age", "number", (row) => -(row.created ?? 0)],
  ["why", "Why", "", (row) => row.why || "\uffff"],
];

/** The state of the list, kept while a job is open. */
const kept = { filter: "", phase: "", sort: "trouble", down: true, at: "" };

/**
 * @param {(path: string, onMessage: (message: FleetMessage) => void) => () => void} follow
 * @returns {import("./types").View}
 */
export function fleetView(follow) {
  /** @type {Map<string, JobRow>} */
  const jobs = new Map();
  /** @type {Map<string, PoolRow>} */
  const pools = new Map();
  /** @type {Map<string, LimitRow>} */
  const limits = new Map();
  /** @type {JobRow[]} */
  let shown = [];
  let asked = false;

  const tiles = h("section", { class: "tiles", "aria-label": "Sums" });
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Show only one state" });
  const filter = /** @type {HTMLInputElement} */ (h("input", {
    type: "search", placeholder: "Filter jobs: a name, a team, a reason",
    "aria-label": "Filter jobs", value: kept.filter, maxlength: 200,
    input: () => { kept.filter = filter.value; draw(); },
  }));
  const head = h("tr", {});
  const body = h("tbody", {});
  const table = h("table", { class: "jobs" }, h("thead", {}, head), body);
  const pool = h("section", { class: "pools" });
  const limit = h("section", { class: "pools" });
  const summary = h("p", { class: "muted small", role: "status" });
  const element = h("div", {}, h("h1", { class: "unseen-title" }, "Training jobs"), tiles, h("div", { class: "tools" }, filter, chips), table, summary, limit, pool,
    h("p", { class: "keys muted small" }, ...keys()));

  function draw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; drawNow(); });
  }

  function drawNow() {
    const all = [...jobs.values()];
    fill(tiles, ...tilesOf(all));
    drawChips(all);
    const words = kept.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all.filter((row) => (!kept.phase || row.phase === kept.phase) && words.every((word) =>
      `${row.key} ${row.team} ${row.phase} ${row.why}`.toLowerCase().includes(word)));
    shown = sorted(found);
    drawHead();
    drawRows();
    const hidden = all.length - shown.length;
    summary.textContent = all.length === 0 ? "" : `${count(shown.length)} ${shown.length === 1 ? "job" : "jobs"}${hidden ? `, ${count(hidden)} hidden by the filter` : ""}`;
    drawLimits(limit, [...limits.values()]);
    drawPools(pool, [...pools.values()]);
  }

  /** @param {JobRow[]} all */
  function drawChips(all) {
    const counts = new Map(PHASES.map((phase) => [phase, all.filter((row) => row.phase === phase).length]));
    const held = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.phase : undefined;
    fill(chips, ...PHASES.filter((phase) => counts.get(phase) || kept.phase === phase).map((phase) => h("button", {
      class: `chip ${phase}`, type: "button", "aria-pressed": String(kept.phase === phase), "data-phase": phase,
      click: () => { kept.phase = kept.phase === phase ? "" : phase; draw(); },
    }, h("i", { class: "dot" }), words(phase), h("b", {}, String(counts.get(phase))))));
    if (held) /** @type {HTMLElement | null} */ (chips.querySelector(`[data-phase="${held}"]`))?.focus();
  }

  function drawHead() {
    if (head.childElementCount === 0) {
      fill(head, ...COLUMNS.map(([id, text, kind]) => h("th", { class: `${kind} c-${id}`, scope: "col", "data-sort": id },
        h("button", { type: "button", click: () => {
          kept.down = kept.sort === id ? !kept.down : true;
          kept.sort = id;
          draw();
        } }, text))));
    }
    for (const cell of head.children) {
      const isSorted = /** @type {HTMLElement} */ (cell).dataset.sort === kept.sort;
      if (isSorted) cell.setAttribute("aria-sort", kept.down ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    }
  }

  /** Draw the rows in the window, and room for the others. */
  function drawRows() {
    const height = NARROW.matches ? 76 : 42;
    const top = table.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / height) - MARGIN);
    const number = Math.ceil(innerHeight / height) + 2 * MARGIN;
    const rows = shown.slice(first, first + number);
    const held = document.activeElement instanceof HTMLElement && body.contains(document.activeElement);
    const after = Math.max(0, shown.length - first - rows.length);
    fill(body, room(first * height), ...rows.map(rowOf), room(after * height),
      shown.length === 0 ? h("tr", {}, h("td", { colspan: COLUMNS.length, class: "empty" },
        jobs.size ? "No job matches the filter." : "There are no training jobs here yet. `kubectl tjob run train.py` starts one.")) : null);
    table.setAttribute("aria-rowcount", String(shown.length + 1));
    if (held) link()?.focus({ preventScroll: true });
  }

  /** @returns {HTMLElement | null} */
  function link() {
    return body.querySelector(`a[data-key="${CSS.escape(kept.at)}"]`);
  }

  /** @param {number} by */
  function move(by) {
    if (!shown.length) return;
    const at = shown.findIndex((row) => row.key === kept.at);
    const next = at < 0 ? 0 : Math.min(shown.length - 1, Math.max(0, at + by));
    kept.at = shown[next].key;
    const height = NARROW.matches ? 76 : 42;
    const top = table.getBoundingClientRect().top + (next + 1) * height;
    if (top < 90) scrollBy(0, top - 90 - height);
    if (top > innerHeight - 2 * height) scrollBy(0, top - innerHeight + 2 * height);
    drawRows();
    link()?.focus({ preventScroll: true });
  }

  const onScroll = () => drawRows();
  addEventListener("scroll", onScroll, { passive: true });
  addEventListener("resize", onScroll);
  const ticking = setInterval(draw, 5000);
  const stop = follow("api/fleet", (message) => {
    if (message.isWhole) { // after a lost connection the server sends all again
      jobs.clear();
      pools.clear();
      limits.clear();
    }
    for (const row of message.jobs ?? []) jobs.set(row.key, row);
    for (const key of message.jobsGone ?? []) jobs.delete(key);
    for (const row of message.pools ?? []) pools.set(row.name, row);
    for (const key of message.poolsGone ?? []) pools.delete(key);
    for (const row of message.limits ?? []) limits.set(row.key, row);
    for (const key of message.limitsGone ?? []) limits.delete(key);
    draw();
  });
  draw();
  return {
    element,
    close() {
      stop();
      clearInterval(ticking);
      removeEventListener("scroll", onScroll);
      removeEventListener("resize", onScroll);
    },
    key(event) {
      const isTyping = event.target === filter;
      if (event.key === "Escape") {
        if (!isTyping && !kept.filter && !kept.phase) return false;
        kept.filter = filter.value = kept.phase = "";
        filter.blur();
        draw();
        return true;
      }
      if (event.key === "Enter" && isTyping && shown.length) {
        kept.at = shown[0].key;
        drawRows();
        link()?.focus();
        return true;
      }
      if (isTyping) return false;
      if (event.key === "/") { filter.focus(); return true; }
      if (event.key === "j" || event.key === "ArrowDown" && link() === document.activeElement) { move(1); return true; }
      if (event.key === "k" || event.key === "ArrowUp" && link() === document.activeElement) { move(-1); return true; }
      return false;
    },
  };
}

/** @param {JobRow[]} rows */
function sorted(rows) {
  const column = COLUMNS.find(([id]) => id === kept.sort) ?? COLUMNS[0];
  const value = column[3];
  const sign = kept.down ? 1 : -1;
  return rows.sort((a, b) => {
    const [left, right] = [value(a) ?? 0, value(b) ?? 0];
    if (left !== right) return left < right ? -sign : sign;
    return b.usdPerHour - a.usdPerHour || (a.key < b.key ? -1 : 1);
  });
}

/** @param {JobRow} row */
export function share(row) {
  return row.step != null && row.totalSteps ? Math.min(1, row.step / row.totalSteps) : null;
}

/** @param {string} phase */
export function words(phase) {
  return phase === "NotSeen" ? "Not seen" : phase;
}

/** @param {JobRow} row */
export function isTroubled(row) {
  return row.severity <= 1;
}

/** @param {JobRow} row */
function rowOf(row) {
  const done = share(row);
  const used = row.budgetUsd && row.usd != null ? row.usd / row.budgetUsd : null;
  const left = row.eta == null || row.phase !== "Running" ? null : row.eta - clock();
  return h("tr", { class: row.key === kept.at ? "at" : "" },
    h("td", { class: "c-name" }, h("a", {
      href: `#/job/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}`, "data-key": row.key,
      focus: (/** @type {FocusEvent} */ event) => {
        kept.at = row.key;
        /** @type {HTMLElement} */ (event.target).closest("tbody")?.querySelector("tr.at")?.classList.remove("at");
        /** @type {HTMLElement} */ (event.target).closest("tr")?.classList.add("at");
      },
    }, row.name), h("span", { class: "muted small" }, row.team ? `${row.namespace} · ${row.team}` : row.namespace)),
    h("td", { class: "c-trouble" }, phaseOf(row)),
    h("td", { class: "number c-workers" }, row.workers, h("span", { class: "muted small" }, row.running ? `${row.spot} spot` : "")),
    h("td", { class: "c-progress" }, done == null
      ? h("span", { class: "muted" }, row.step == null ? "–" : `step ${count(row.step)}`)
      : meter(done, `${Math.floor(done * 100)}%`, "")),
    h("td", { class: "number c-left" }, left == null || left <= 0 ? "–" : span(left)),
    h("td", { class: "number c-rate" }, row.usdPerHour ? usd(row.usdPerHour) : "–"),
    h("td", { class: "number c-cost" }, usd(row.usd), used == null ? null
      : h("span", { class: `small ${used >= 1 ? "bad" : used > 0.8 ? "warn" : "muted"}` }, `${Math.round(used * 100)}% of ${usd(row.budgetUsd)}`)),
    h("td", { class: "number c-saved" }, row.savedUsd ? h("span", { class: row.savedUsd > 0 ? "good" : "" }, usd(row.savedUsd)) : "–"),
    h("td", { class: "number c-losses" }, row.losses ? String(row.losses) : "–"),
    h("td", { class: "number c-age" }, ago(row.created)),
    h("td", { class: "c-why muted", title: row.why }, row.why));
}

/** @param {JobRow} row */
export function phaseOf(row) {
  return h("span", { class: `phase ${row.phase} ${isTroubled(row) ? "troubled" : ""}` }, h("i", { class: "dot" }), words(row.phase));
}

/** @param {JobRow[]} all */
function tilesOf(all) {
  const sum = (/** @type {(row: JobRow) => number} */ of) => all.reduce((total, row) => total + of(row), 0);
  const running = sum((row) => row.running);
  const spot = sum((row) => row.spot);
  const troubled = all.filter(isTroubled).length;
  const spent = sum((row) => row.usd ?? 0);
  const limited = all.filter((row) => row.budgetUsd);
  const limit = limited.reduce((total, row) => total + (row.budgetUsd ?? 0), 0);
  const under = limited.reduce((total, row) => total + (row.usd ?? 0), 0);
  const saved = sum((row) => row.savedUsd ?? 0);
  return [
    tile("Jobs", count(all.length), troubled ? `${troubled} need${troubled === 1 ? "s" : ""} attention` : "none needs attention", troubled ? "bad" : ""),
    tile("Now", `${usd(sum((row) => row.usdPerHour))}/h`, `${count(running)} workers run`),
    tile("On spot", running ? `${Math.round((spot / running) * 100)}%` : "–", `${count(spot)} of ${count(running)} workers`),
    tile("Spent", usd(spent), limit ? `${usd(under)} of ${usd(limit)} in budgets` : "no job has a budget"),
    tile("Saved by spot", usd(saved), spent + saved > 0 && saved > 0 ? `${Math.round((saved / (spent + saved)) * 100)}% of the price on demand` : "", saved > 0 ? "good" : ""),
  ];
}

/**
 * @param {string} title
 * @param {string} value
 * @param {string} more
 * @param {string} [kind]
 */
export function tile(title, value, more, kind = "") {
  return h("div", { class: `tile ${kind}` }, h("span", { class: "muted small" }, title), h("strong", {}, value), h("span", { class: "more small" }, more));
}

/**
 * @param {HTMLElement} section
 * @param {PoolRow[]} pools
 */
function drawPools(section, pools) {
  if (!pools.length) return fill(section);
  const titles = ["Pool", "Capacity", "Machines", "Zones", "Nodes", "Workers", "$/h a node", "Losses, 24h", "Nodes taken", "Now"];
  const ordered = pools.sort((a, b) => b.nodes - a.nodes || (a.name < b.name ? -1 : 1));
  fill(section, h("h2", {}, "Pools"), h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Pools" }, h("table", {},
    h("thead", {}, h("tr", {}, ...titles.map((text, i) => h("th", { scope: "col", class: i >= 4 && i <= 8 ? "number" : "" }, text)))),
    h("tbody", {}, ...ordered.map((row) => h("tr", {},
      h("td", {}, row.name),
      h("td", {}, h("span", { class: `capacity ${row.capacity}` }, row.capacity === "OnDemand" ? "On demand" : row.capacity || "–")),
      h("td", {}, row.types), h("td", {}, row.zones),
      h("td", { class: "number" }, count(row.nodes)), h("td", { class: "number" }, count(row.workers)),
      h("td", { class: "number" }, usd(row.usdPerHour), h("span", { class: "muted small source", title: row.source },
        row.usdPerHour == null ? "no price" : `${row.source}${row.isStale ? ", old" : ""}`)),
      h("td", { class: `number ${row.lossesADay ? "warn" : ""}` }, count(row.lossesADay)),
      h("td", { class: "number" }, row.taken || "–"),
      h("td", {}, row.available))))),
  ));
}

/** @param {number} height */
function room(height) {
  if (!height) return null;
  const row = h("tr", { class: "room", "aria-hidden": "true" }, h("td", { colspan: COLUMNS.length }));
  row.style.height = `${height}px`;
  return row;
}

function keys() {
  return [["j k", "move"], ["enter", "open"], ["/", "filter"], ["esc", "back"]].flatMap(([key, what]) => [h("kbd", {}, key), ` ${what}   `]);
}
