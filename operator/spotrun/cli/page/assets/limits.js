// @ts-check
/** SpendLimits: what the jobs of a namespace or a team have spent, and their limit. */

import { fill, h, meter } from "./dom.js";
import { count, usd } from "./format.js";

/** @typedef {import("./types").LimitRow} LimitRow */

/** @type {Record<string, string>} */
const PERIODS = { Month: "a month", Week: "a week", Total: "in total" };
const TITLES = ["Limit", "Spent", "", "Reserved", "Expected", "Running", "Held", "Suspended", "Now"];
const NUMBERS = new Set([1, 3, 4, 5, 6, 7]);

/** @param {LimitRow} row */
function used(row) {
  return row.limitUsd && row.spentUsd != null ? row.spentUsd / row.limitUsd : 0;
}

/**
 * @param {HTMLElement} section
 * @param {LimitRow[]} limits
 */
export function drawLimits(section, limits) {
  if (!limits.length) return fill(section);
  const ordered = limits.sort((a, b) => used(b) - used(a) || (a.key < b.key ? -1 : 1));
  fill(section, h("h2", {}, "Spend limits"), h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Spend limits" }, h("table", {},
    h("thead", {}, h("tr", {}, ...TITLES.map((text, i) => h(text ? "th" : "td", text ? { scope: "col", class: NUMBERS.has(i) ? "number" : "" } : {}, text)))),
    h("tbody", {}, ...ordered.map(rowOf)))));
}

/** @param {LimitRow} row */
function rowOf(row) {
  const part = used(row);
  return h("tr", {},
    h("td", {}, row.key),
    h("td", { class: `number ${part >= 1 ? "bad" : part > 0.8 ? "warn" : ""}` }, usd(row.spentUsd),
      h("span", { class: "muted small" }, ` of ${usd(row.limitUsd)} ${PERIODS[row.period] ?? row.period}`)),
    h("td", {}, meter(part, `${Math.round(part * 100)}%`, "")),
    h("td", { class: "number" }, usd(row.reservedUsd)),
    h("td", { class: "number" }, usd(row.forecastUsd)),
    ...[row.running, row.held, row.suspended].map((jobs) => h("td", { class: "number" }, count(jobs))),
    h("td", { class: "muted" }, row.message));
}
