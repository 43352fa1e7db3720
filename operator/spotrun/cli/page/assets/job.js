// @ts-check
/** One job: what it does, its timeline, why, its money, its workers, and the log of rank 0. */

import { fill, h, meter } from "./dom.js";
import { isTroubled, phaseOf, share, tile } from "./fleet.js";
import { ago, clock, count, span, time, usd } from "./format.js";
import { timelineOf } from "./timeline.js";

/** @typedef {import("./types").JobView} JobView */
/** @typedef {import("./types").JobMessage} JobMessage */

const LOG_SECONDS = 2;
const REDRAW_SECONDS = 2;

/**
 * @param {string} namespace
 * @param {string} name
 * @param {(path: string, onMessage: (message: JobMessage) => void) => () => void} follow
 * @returns {import("./types").View}
 */
export function jobView(namespace, name, follow) {
  const path = `api/jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  /** @type {JobView | null | undefined} */
  let job;
  let isOver = false;
  const top = h("section", {});
  const picture = h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Timeline" });
  const unknown = h("div", { class: "muted small" });
  const middle = h("div", { class: "columns" });
  const workers = h("section", { class: "card" });
  const log = h("pre", { tabindex: "0", "aria-label": "Log of rank 0" });
  const heard = h("span", { class: "muted small" });
  const timelineCard = h("section", { class: "card" }, h("h2", {}, "Timeline"), picture, unknown);
  const element = h("div", { class: "job" }, top, timelineCard, middle, workers,
    h("section", { class: "card" }, h("h2", {}, "Log of rank 0 ", heard), log));

  function draw() {
    if (job === undefined) return;
    if (job === null) {
      fill(top, h("p", { class: "empty" }, `${namespace}/${name} does not exist (any more). `, h("a", { href: "#/" }, "All jobs")));
      return;
    }
    fill(top, ...headOf(job));
    drawPicture();
    fill(unknown, ...job.notes.map((one) => h("p", {}, one)));
    fill(middle, whyOf(job), moneyOf(job), happenedOf(job));
    drawWorkers(workers, job);
  }

  function drawPicture() {
    if (!job) return;
    const width = Math.max(560, Math.floor(picture.clientWidth || 900));
    const at = picture.scrollLeft;
    fill(picture, timelineOf(job.timeline, width));
    picture.scrollLeft = at;
  }

  async function readLog() {
    if (isOver || document.hidden) return;
    try {
      const answer = await (await fetch(`${path}/log`)).json();
      const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
      const text = answer.lines.map((/** @type {{at: string, text: string}} */ one) => `${one.at ? `${time(Date.parse(`${one.at.slice(0, 19)}Z`) / 1000)}  ` : ""}${one.text}`).join("\n");
      heard.textContent = answer.why || (answer.rank ? `last ${count(answer.lines.length)} lines of ${answer.rank.startsWith("w") ? `worker ${answer.rank.slice(1)}` : `rank ${answer.rank}`}` : "");
      if (log.textContent !== text) {
        log.textContent = text;
        if (isAtEnd) log.scrollTop = log.scrollHeight;
      }
    } catch {
      heard.textContent = "cannot be read now";
    }
  }

  const stop = follow(path, (message) => {
    job = message.job;
    draw();
  });
  const redraw = setInterval(drawPicture, REDRAW_SECONDS * 1000);
  const reading = setInterval(readLog, LOG_SECONDS * 1000);
  addEventListener("resize", drawPicture);
  readLog();
  return {
    element,
    close() {
      isOver = true;
      stop();
      clearInterval(redraw);
      clearInterval(reading);
      removeEventListener("resize", drawPicture);
    },
    key(event) {
      if (event.key !== "Escape") return false;
      location.hash = "#/";
      return true;
    },
  };
}

/** @param {JobView} job */
function headOf(job) {
  const { row, figures } = job;
  const done = share(row);
  const left = row.eta == null ? null : row.eta - clock();
  const used = row.budgetUsd && row.usd != null ? row.usd / row.budgetUsd : null;
  const progress = done == null ? (row.step == null ? "–" : `step ${count(row.step)}`) : `${Math.floor(done * 100)}%`;
  const rate = row.usdPerHour ? `${usd(row.usdPerHour)}/h now` : "";
  const ofBudget = used == null ? "" : `${Math.round(used * 100)}% of ${usd(row.budgetUsd)}`;
  const pace = figures.stepSeconds ? `${figures.stepSeconds} s a step` : "no step measured yet";
  const losses = row.losses ? `${figures.lostSteps ?? 0} steps done again, ${usd(figures.lostWorkUsd)} lost` : "no worker was taken away";
  return [
    h("div", { class: "title" }, h("h1", {}, row.name), phaseOf(row), h("span", { class: "muted" }, job.message)),
    ...job.troubles.map((one) => h("div", { class: `trouble ${isTroubled(row) ? "bad" : ""}`, role: "note" },
      h("b", {}, one.title), ` ${one.message}`, one.advice ? h("span", { class: "advice" }, one.advice) : null)),
    h("section", { class: "tiles" },
      tile("Progress", progress, row.step == null ? pace : `step ${count(row.step)}${row.totalSteps ? ` of ${count(row.totalSteps)}` : ""}, ${pace}`),
      tile("Workers", row.workers, `${row.spot} on spot; ${figures.min} to ${figures.max}, ${figures.capacity}`),
      tile("Cost", usd(row.usd), [rate, ofBudget].filter(Boolean).join("; "), used != null && used >= 1 ? "bad" : ""),
      tile("Saved by spot", usd(row.savedUsd), figures.onDemandUsd == null ? "" : `${usd(figures.onDemandUsd)} on demand`, (row.savedUsd ?? 0) > 0 ? "good" : ""),
      tile("Losses", String(row.losses), losses),
      tile(row.eta != null && row.phase === "Running" ? "Left" : "Age", row.eta != null && row.phase === "Running" ? span(Math.max(0, left ?? 0)) : ago(row.created), figures.schedule || `made ${time(row.created)}`, figures.isLate ? "bad" : ""),
      tile("Checkpoint", figures.checkpointStep == null ? "none" : `step ${count(figures.checkpointStep)}`, savedOf(figures))),
    done == null ? null : meter(done, "", "thin"),
  ];
}

/** @param {Record<string, any>} figures */
function savedOf(figures) {
  const durable = figures.checkpointAt == null ? "" : `${ago(figures.checkpointAt)} ago`;
  const local = figures.localAt == null ? "" : `local tier: step ${count(figures.localStep)}, ${ago(figures.localAt)} ago`;
  return [durable, local].filter(Boolean).join("; ");
}

/** @param {JobView} job */
function whyOf(job) {
  return h("section", { class: "card" }, h("h2", {}, "Why"), ...job.answers.flatMap((one) => [
    h("h3", {}, one.question), h("ul", {}, ...one.sentences.map((text) => h("li", {}, text)))]));
}

/** @param {JobView} job */
function moneyOf(job) {
  const total = job.bill[0]?.[1] || 0;
  return h("section", { class: "card" }, h("h2", {}, "Money"),
    job.bill.length ? h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "What"), h("th", { scope: "col", class: "number" }, "Cost"), h("th", { scope: "col", class: "number" }, "Share"))),
      h("tbody", {}, ...job.bill.map(([text, value]) => h("tr", {}, h("td", {}, text), h("td", { class: "number" }, usd(value)),
        h("td", { class: "number" }, total ? `${Math.round((value / total) * 100)}%` : "–"))))) : h("p", { class: "muted" }, "Nothing yet: no worker has run, or no price is known."),
    ...job.remarks.map((text) => h("p", { class: "small" }, text)));
}

/** @param {JobView} job */
function happenedOf(job) {
  const all = [...job.timeline.marks].reverse();
  return h("section", { class: "card happened" }, h("h2", {}, "What happened, the newest first"),
    all.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "What happened" }, h("ol", {}, ...all.map((mark) => h("li", { class: mark.kind },
      h("time", {}, time(mark.at)), h("div", {}, ...told(mark)))))) : h("p", { class: "muted" }, "No decision and no Event yet."));
}

/**
 * @param {HTMLElement} section
 * @param {JobView} job
 */
function drawWorkers(section, job) {
  const titles = ["Rank", "Worker", "State", "Capacity", "$/h", "Node", "Zone", "Machine", "Age"];
  const numbers = new Set([0, 1, 4, 8]);
  fill(section, h("h2", {}, "Workers"), job.workers.length ? h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Workers" }, h("table", {},
    h("thead", {}, h("tr", {}, ...titles.map((text, i) => h("th", { scope: "col", class: numbers.has(i) ? "number" : "" }, text)))),
    h("tbody", {}, ...job.workers.map((one) => h("tr", {},
      h("td", { class: "number" }, one.rank == null ? "–" : String(one.rank)), h("td", { class: "number" }, String(one.worker)),
      h("td", {}, one.state), h("td", {}, h("span", { class: `capacity ${one.capacity}` }, one.capacity === "OnDemand" ? "On demand" : one.capacity)),
      h("td", { class: "number" }, usd(one.usdPerHour)), h("td", { class: "mono" }, one.node), h("td", {}, one.zone), h("td", {}, one.machine),
      h("td", { class: "number" }, ago(one.created))))))) : h("p", { class: "muted" }, "No worker has a pod now."));
}

/** @param {import("./types").Mark} mark */
function told(mark) {
  const world = /^world (\d+): (.*)$/s.exec(mark.text);
  return world ? [h("b", {}, `World ${world[1]}`), ` ${world[2]}`] : [h("b", {}, spaced(mark.what)), ` ${mark.text}`];
}

/** @param {string} word */
function spaced(word) {
  const text = word.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
}
