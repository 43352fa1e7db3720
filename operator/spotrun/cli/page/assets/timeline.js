// @ts-check
/** The picture of a job: its workers as bars, the size of its world, and its money, on one axis. */

import { h, svg } from "./dom.js";
import { clock, span, time, usd } from "./format.js";

/** @typedef {import("./types").Timeline} Timeline */
/** @typedef {import("./types").Life} Life */
/** @typedef {import("./types").Mark} Mark */

const [LEFT, RIGHT, STRIP, SIZE, MONEY, GAP, AXIS] = [52, 56, 26, 64, 84, 22, 24];
const STUB = 14; // pixels of a bar whose begin or end is not known
const SHADES = 4; // of zones, for each capacity
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/**
 * The lanes that lives are drawn in: a worker that begins after another ended takes its lane.
 * @param {Life[]} lives
 * @param {number} most
 * @returns {Life[][]}
 */
export function lanes(lives, most = 24) {
  if (lives.length <= most) return lives.map((life) => [life]);
  /** @type {Life[][]} */
  const found = [];
  const ordered = [...lives].sort((a, b) => (a.begin ?? 0) - (b.begin ?? 0) || a.worker - b.worker);
  for (const life of ordered) {
    const free = found.find((lane) => {
      const last = lane[lane.length - 1];
      return last.isOver && last.end != null && life.begin != null && last.end <= life.begin;
    });
    if (free) free.push(life);
    else found.push([life]);
  }
  return found;
}

/**
 * The class of a bar: its capacity, and the shade of its zone.
 * @param {Life} life
 * @param {string[]} zones
 */
function colour(life, zones) {
  const shade = life.zone ? `shade${zones.indexOf(life.zone) % SHADES}` : "nowhere";
  return `${life.capacity || "unknown"} ${shade}`;
}

/**
 * @param {Timeline} line
 * @param {number} width
 * @returns {HTMLElement}
 */
export function timelineOf(line, width) {
  const end = line.end ?? clock();
  const seconds = Math.max(end - line.begin, 10);
  const inner = width - LEFT - RIGHT;
  const x = (/** @type {number} */ at) => LEFT + Math.min(1, Math.max(0, (at - line.begin) / seconds)) * inner;
  const rows = lanes(line.lives);
  const lane = rows.length > 48 ? 5 : rows.length > 24 ? 9 : rows.length > 12 ? 14 : 20;
  const zones = [...new Set(line.lives.map((life) => life.zone).filter(Boolean))].sort();
  const bars = STRIP + rows.length * lane;
  const sizeTop = bars + GAP;
  const hasMoney = line.samples.some((one) => one.usd != null);
  const moneyTop = sizeTop + SIZE + GAP;
  const lossTop = hasMoney ? moneyTop + MONEY + GAP : moneyTop;
  const hasLoss = line.samples.some((one) => one.loss != null);
  const bottom = hasLoss ? lossTop + SIZE : hasMoney ? moneyTop + MONEY : sizeTop + SIZE;
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${bottom + AXIS}`, width, height: bottom + AXIS, role: "img", "aria-label": said(line),
  });
  const label = (/** @type {number} */ y, /** @type {string} */ text) => svg("text", { x: LEFT - 8, y, class: "label", "text-anchor": "end" }, text);
  picture.append(...axis(line.begin, seconds, x, STRIP - 6, bottom));
  for (const mark of line.marks) if (mark.kind === "world") {
    picture.append(svg("line", { class: "world", x1: x(mark.at), x2: x(mark.at), y1: STRIP - 6, y2: bottom }));
  }
  picture.append(...stalls(line, x, STRIP, bars));
  picture.append(label(14, "events"));
  rows.forEach((lives, i) => {
    const y = STRIP + i * lane;
    if (lane >= 14) picture.append(label(y + lane / 2 + 3, `w${lives[0].worker}`));
    for (const life of lives) picture.append(...bar(life, x, y, lane, colour(life, zones)));
  });
  picture.append(...strip(line.marks, x));
  picture.append(...sizes(line, x, end, sizeTop, label));
  if (hasMoney) picture.append(...money(line, x, moneyTop, label));
  if (hasLoss) picture.append(...losses(line, x, lossTop, label));
  return h("div", { class: "timeline" }, legend(line, zones, hasMoney), picture);
}

/**
 * @param {Life} life
 * @param {(at: number) => number} x
 * @param {number} y
 * @param {number} lane
 * @param {string} kind
 */
function bar(life, x, y, lane, kind) {
  const isOpenLeft = life.begin == null;
  const isOpenRight = life.isOver && life.end == null;
  const now = clock();
  const right = isOpenRight ? x(life.begin ?? now) + STUB : x(life.end ?? now);
  const left = isOpenLeft ? Math.max(LEFT, right - STUB) : x(/** @type {number} */ (life.begin));
  const height = Math.max(3, lane - (lane > 9 ? 4 : 2));
  const made = [svg("rect", {
    class: `bar ${kind} ${isOpenLeft || isOpenRight ? "open" : ""} ${life.state === "Starting" || life.state === "NoNode" ? "waiting" : ""}`,
    x: left, y, width: Math.max(2, right - left), height, rx: Math.min(3, height / 3),
  }, svg("title", {}, [
    `worker ${life.worker} (${life.state || "?"})`, life.capacity === "OnDemand" ? "on demand" : life.capacity.toLowerCase() || "capacity not known",
    life.node ? `node ${life.node}` : "", life.zone ? `zone ${life.zone}` : "",
    `${life.begin == null ? "?" : time(life.begin)} to ${life.end != null ? time(life.end) : life.isOver ? "?" : "now"}`,
    life.begin != null && life.end != null ? span(life.end - life.begin) : "", life.isLost ? "taken away" : "",
  ].filter(Boolean).join("\n")))];
  if (life.isLost) made.push(cross(right, y + height / 2, Math.min(5, Math.max(3, height / 3))));
  return made;
}

/**
 * @param {number} x
 * @param {number} y
 * @param {number} r
 */
function cross(x, y, r) {
  return svg("path", { class: "loss", d: `M${x - r} ${y - r}L${x + r} ${y + r}M${x - r} ${y + r}L${x + r} ${y - r}` });
}

/**
 * @param {Mark[]} marks
 * @param {(at: number) => number} x
 */
function strip(marks, x) {
  return marks.map((mark) => {
    const at = x(mark.at);
    const title = svg("title", {}, `${time(mark.at)} ${mark.what}\n${mark.text}`);
    const id = { "data-at": `${mark.at}`, class: `mark ${mark.kind}` };
    if (mark.kind === "loss") return svg("g", id, svg("rect", { x: at - 6, y: 4, width: 12, height: 12, class: "hit" }), cross(at, 10, 4), title);
    if (mark.kind === "checkpoint") return svg("path", { ...id, d: `M${at} 5l5 5l-5 5l-5 -5z` }, title);
    if (mark.kind === "world") return svg("path", { ...id, d: `M${at - 4} 5h8l-4 8z` }, title);
    return svg("circle", { ...id, cx: at, cy: 10, r: 3.5 }, title);
  });
}

/**
 * The size of the world, from the Events about worlds.
 * @param {Timeline} line
 * @param {(at: number) => number} x
 * @param {number} end
 * @param {number} top
 * @param {(y: number, text: string) => SVGElement} label
 */
function sizes(line, x, end, top, label) {
  const worlds = line.marks.filter((mark) => mark.size != null);
  const most = Math.max(1, ...worlds.map((mark) => mark.size ?? 0));
  const y = (/** @type {number} */ size) => top + SIZE - (size / most) * (SIZE - 8);
  const frame = [svg("line", { class: "base", x1: x(line.begin), x2: x(end), y1: top + SIZE, y2: top + SIZE }), label(top + 11, String(most)), label(top + SIZE, "0"), label(top + SIZE / 2 + 6, "size")];
  if (!worlds.length) return [...frame, svg("text", { class: "label", x: LEFT + 8, y: top + SIZE / 2 + 4 }, "No Event reports a world: its size over time is not known.")];
  let path = `M${x(worlds[0].at)} ${top + SIZE}V${y(worlds[0].size ?? 0)}`;
  for (const mark of worlds.slice(1)) path += `H${x(mark.at)}V${y(mark.size ?? 0)}`;
  path += `H${x(end)}`;
  return [...frame, svg("path", { class: "area", d: `${path}V${top + SIZE}Z` }), svg("path", { class: "line", d: path.slice(path.indexOf("V")).replace(/^V/, `M${x(worlds[0].at)} `) })];
}

/**
 * What was spent, and the rate, as this page has seen them.
 * @param {Timeline} line
 * @param {(at: number) => number} x
 * @param {number} top
 * @param {(y: number, text: string) => SVGElement} label
 */
function money(line, x, top, label) {
  const known = line.samples.filter((one) => one.usd != null);
  const bottom = top + MONEY;
  const end = line.end ?? clock();
  const most = Math.max(...known.map((one) => one.usd ?? 0), 1e-9);
  const fastest = Math.max(...known.map((one) => one.usdPerHour ?? 0), 1e-9);
  const y = (/** @type {number} */ value, /** @type {number} */ of) => bottom - (value / of) * (MONEY - 12);
  const last = known[known.length - 1];
  const spent = `${known.map((one, i) => `${i ? "L" : "M"}${x(one.at)} ${y(one.usd ?? 0, most)}`).join("")}L${x(end)} ${y(last.usd ?? 0, most)}`;
  const rate = `${known.map((one, i) => (i ? `H${x(one.at)}V${y(one.usdPerHour ?? 0, fastest)}` : `M${x(one.at)} ${y(one.usdPerHour ?? 0, fastest)}`)).join("")}H${x(end)}`;
  const from = x(known[0].at);
  const made = [];
  if (from - x(line.begin) > 40) {
    made.push(svg("rect", { class: "unseen", x: x(line.begin), y: top, width: from - x(line.begin), height: MONEY }));
    if (from - x(line.begin) > 180) made.push(svg("text", { class: "label", x: x(line.begin) + 8, y: top + MONEY / 2 }, "not recorded before this page"));
  }
  return [...made, svg("line", { class: "base", x1: x(line.begin), x2: x(end), y1: bottom, y2: bottom }),
    svg("path", { class: "rate", d: rate }), svg("path", { class: "spent", d: spent }),
    label(top + 13, usd(most)), label(top + MONEY / 2 + 6, "spent"), label(bottom, "$0"),
    svg("text", { class: "label", x: x(end) + 8, y: y(last.usdPerHour ?? 0, fastest) + 4 }, `${usd(last.usdPerHour)}/h`)];
}

/**
 * The loss that the script logs, as this page has seen it.
 * @param {Timeline} line
 * @param {(at: number) => number} x
 * @param {number} top
 * @param {(y: number, text: string) => SVGElement} label
 */
function losses(line, x, top, label) {
  const known = line.samples.filter((one) => one.loss != null);
  const values = known.map((one) => one.loss ?? 0);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const y = (/** @type {number} */ value) => top + SIZE - 4 - ((value - least) / Math.max(most - least, 1e-12)) * (SIZE - 12);
  const path = known.map((one, i) => `${i ? "L" : "M"}${x(one.at)} ${y(one.loss ?? 0)}`).join("") + "h2"; // a single sample is a dot
  const said = `loss ${values[0].toPrecision(4)} to ${values[values.length - 1].toPrecision(4)}`;
  return [label(top + 11, most.toPrecision(3)), label(top + SIZE / 2 + 6, "loss"), label(top + SIZE, least.toPrecision(3)),
    svg("path", { class: "learned", d: path }, svg("title", {}, said))];
}

/**
 * The times in which workers ran and no step was done.
 * @param {Timeline} line
 * @param {(at: number) => number} x
 * @param {number} top
 * @param {number} bottom
 */
function stalls(line, x, top, bottom) {
  return line.stalls.map((one) => {
    const box = { x: x(one.begin), y: top, width: Math.max(2, x(one.end) - x(one.begin)), height: bottom - top };
    return svg("rect", { class: "unseen", ...box }, svg("title", {}, `no step for ${span(one.end - one.begin)}`));
  });
}

/**
 * @param {number} begin
 * @param {number} seconds
 * @param {(at: number) => number} x
 * @param {number} top
 * @param {number} bottom
 */
function axis(begin, seconds, x, top, bottom) {
  const wanted = Math.max(2, (x(begin + seconds) - LEFT) / 110);
  const step = STEPS.find((one) => seconds / one <= wanted) ?? 86400 * Math.ceil(seconds / 86400 / wanted);
  const offset = new Date(begin * 1000).getTimezoneOffset() * 60;
  const made = [];
  for (let at = Math.ceil((begin - offset) / step) * step + offset; at <= begin + seconds; at += step) {
    made.push(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: top, y2: bottom }));
    made.push(svg("text", { class: "label", x: x(at), y: bottom + 16, "text-anchor": "middle" }, time(at, step < 60)));
  }
  return made;
}

/**
 * @param {Timeline} line
 * @param {string[]} zones
 * @param {boolean} hasMoney
 */
function legend(line, zones, hasMoney) {
  const kinds = new Map();
  for (const life of line.lives) {
    const name = { Spot: "Spot", OnDemand: "On demand" }[life.capacity] ?? "Capacity not known";
    kinds.set(`${name}${life.zone ? `, ${life.zone}` : ", zone not known"}`, colour(life, zones));
  }
  const has = (/** @type {string} */ kind) => line.marks.some((mark) => mark.kind === kind);
  const sign = (/** @type {string} */ name, /** @type {SVGElement} */ made) => h("li", {}, svg("svg", { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" }, made), name);
  return h("ul", { class: "legend", "aria-label": "Legend" },
    ...[...kinds].sort().map(([name, kind]) => sign(name, svg("rect", { class: `bar ${kind}`, x: 0, y: 2, width: 14, height: 10, rx: 3 }))),
    has("loss") ? sign("taken away", cross(7, 7, 4)) : null,
    has("world") ? sign("new world", svg("path", { class: "mark world", d: "M3 3h8l-4 8z" })) : null,
    has("checkpoint") ? sign("checkpoint", svg("path", { class: "mark checkpoint", d: "M7 2l5 5l-5 5l-5 -5z" })) : null,
    has("decision") ? sign("decision", svg("circle", { class: "mark decision", cx: 7, cy: 7, r: 3.5 })) : null,
    line.stalls.length ? sign("no step", svg("rect", { class: "unseen", x: 0, y: 2, width: 14, height: 10 })) : null,
    hasMoney ? sign("spent", svg("path", { class: "spent", d: "M0 11L14 3" })) : null,
    hasMoney ? sign("$/h", svg("path", { class: "rate", d: "M0 9H7V5H14" })) : null);
}

/** @param {Timeline} line */
function said(line) {
  const lost = line.lives.filter((life) => life.isLost).length;
  const worlds = line.marks.filter((mark) => mark.kind === "world").length;
  return `Timeline: ${line.lives.length} workers, ${lost} taken away, ${worlds} worlds. The table of what happened has the same in words.`;
}
