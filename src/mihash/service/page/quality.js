// The quality of the current mapping against the snapshot, theta as a band above it, each decision a mark (Eq. 5-6).

import { Cursor, byId, count, element, empty, frame, html, line, measured, plural, seconds, signed } from "./draw.js";
import { isFixed } from "./summary.js";

const HEIGHT = 300;
const LAST = 40;
const MARKS_APART = 5; // pixels; where checks are denser, only some of the noes are drawn
const RELATIVE_THETA = 0.02; // of an index without a theta of its own
const TABLE_ROWS = 25;

const host = byId("quality-chart");
const cursor = new Cursor(host);
const bits = (value) => value.toFixed(4);

// What a rehash costs in queries, where the trigger has a price.
const price = (state) => state.stats?.options?.trigger?.price ?? null;
const isEvent = (decision) => decision.kind === "alarm" || decision.kind === "price";

// The gain in bits that a rehash must bring over a snapshot of this quality.
function bar(state, decision, quality) {
  if (price(state) != null) return NaN; // a price is no gain in bits: no band
  if (state.stats?.theta == null) return RELATIVE_THETA * quality;
  return measured(decision.theta) ? decision.theta : Number(state.stats.theta); // "inf" gives NaN: no band
}

export function describe(decision, state) {
  const { number, seen, current, snapshot, accepted, kind, reason } = decision;
  if (isEvent(decision)) return [[`${kind}, after ${plural(seen, "example")}`, "title"], [reason, kind]];
  const version = state.versions.find((each) => each.number === number);
  const built = version ? `${plural(version.items, "code")} computed again in ${seconds(version.seconds)}` : "";
  const lines = [[`check ${number}, after ${plural(seen, "example")}`, "title"]];
  if (measured(current) && measured(snapshot)) {
    lines.push([`current ${bits(current)}, snapshot ${bits(snapshot)} bits`]);
  }
  lines.push([`${accepted ? "Rehash" : "Keep"}: ${reason}`, accepted ? "yes" : "no"]);
  if (built) lines.push([built]);
  if (kind === "request") lines.push(["requested by rehash"]);
  return lines;
}

// What a change of the stream did, in one sentence: how far the quality fell, and where it is now.
export function change(decisions) {
  const at = decisions.findLastIndex((each) => each.kind === "alarm");
  if (at < 0) return "";
  const known = (part) => part.filter((each) => !isEvent(each) && measured(each.current)).map((each) => each.current);
  const before = known(decisions.slice(0, at)).slice(-6, -1), after = known(decisions.slice(at));
  const told = `The stream changed: alarm after ${plural(decisions[at].seen, "example")}`;
  if (!before.length || !after.length) return `${told}. The sample and the learner follow.`;
  const was = before.reduce((a, b) => a + b) / before.length;
  const fell = Math.min(decisions[at].current ?? Infinity, ...after.slice(0, 10)), now = after.at(-1);
  return `${told}. Quality fell from ${was.toFixed(2)} to ${fell.toFixed(2)} bits; the sample and the learner follow, and it is ${now.toFixed(2)} now.`;
}

export function sentence(state) {
  const last = state.decisions.findLast((each) => !isEvent(each));
  if (!last) return "The first decision comes with the first examples.";
  const after = `After ${plural(last.seen, "example")}`;
  const first = state.stats?.learner === "given" ? "was learned elsewhere" : "is random hyperplanes";
  if (last.kind === "start") return `The first mapping ${first}; the first check comes after ${plural(state.stats?.interval ?? 100, "example")}.`;
  if (last.kind === "normalization") return `${after}: ${last.reason}, so the codes are computed once more.`;
  if (last.kind === "request") return `${after}, a rehash was requested.`;
  if (!measured(last.current)) return `${after}: ${last.reason}, so the stored codes are kept.`;
  if (price(state) != null) {
    return `${after}: ${last.reason}, so ${last.accepted ? "every stored code is computed again" : "the stored codes are kept"}.`;
  }
  const gain = last.current - last.snapshot;
  const theta = state.stats?.theta == null ? bar(state, last, last.snapshot).toFixed(4) : state.stats.theta;
  const change = gain >= 0 ? `${gain.toFixed(4)} bits more` : `${(-gain).toFixed(4)} bits less`;
  const same = Math.abs(gain) < 0.00005 && !last.accepted;
  const told = `${after}, the current mapping tells ${same ? "as much" : change} about who is a neighbour ${same ? "as" : "than"} the snapshot`;
  if (gain < 0 && !last.accepted) return `${told}, so the stored codes are kept.`;
  if (last.accepted) return `${told}: more than theta (${theta}), so every stored code is computed again.`;
  return `${told}: not more than theta (${theta}), so the stored codes are kept.`;
}

// The same line with fewer points: in each pixel column the first, lowest, highest and last.
function thinned(points) {
  const columns = new Map();
  for (const point of points) {
    const column = Math.round(point[0]);
    if (!columns.has(column)) columns.set(column, []);
    columns.get(column).push(point);
  }
  return [...columns.values()].flatMap((column) => {
    if (column.length < 5) return column;
    const byHeight = [...column].sort((a, b) => a[1] - b[1]);
    return [column[0], byHeight[0], byHeight.at(-1), column.at(-1)];
  });
}

function marks(shown, place) {
  const group = element("g");
  const apart = (place(shown.at(-1))[0] - place(shown[0])[0]) / shown.length;
  const size = Math.min(1, Math.max(0.55, apart / 8)); // dense marks are small, so that they do not hide the lines
  let lastNo = -Infinity;
  for (const decision of shown) {
    const [x, y] = place(decision);
    if (!decision.accepted && x - lastNo < MARKS_APART) continue;
    if (!decision.accepted) lastNo = x;
    group.append(element("circle", { class: decision.accepted ? "yes" : "no", cx: x, cy: y, r: decision.accepted ? Math.max(3.5, 4.5 * size) : 3 * size }));
  }
  const yes = [...group.querySelectorAll(".yes")];
  group.append(...yes); // on top
  return group;
}

export function draw(state) {
  byId("quality-lead").textContent = sentence(state);
  byId("change").textContent = change(state.decisions);
  byId("change").hidden = !byId("change").textContent;
  byId("theta-key").hidden = price(state) != null;
  const known = state.decisions.filter((each) => !isEvent(each) && measured(each.current) && measured(each.snapshot));
  if (known.length < 2) return empty(host, HEIGHT, isFixed(state.stats) ? "These codes are not learned: their quality does not change" : "Waiting for the first checks of the trigger");
  const last = document.querySelector("[name=span][value=last]").checked;
  const measuredShown = last ? known.slice(-LAST) : known;
  const from = last ? measuredShown[0].seen : 0;
  const shown = state.decisions.filter((each) => each.seen >= from);

  const lower = [], upper = [], now = [];
  for (const decision of measuredShown) {
    const { seen, snapshot, current, accepted } = decision;
    lower.push([seen, snapshot]);
    upper.push([seen, snapshot + bar(state, decision, snapshot)]);
    now.push([seen, current]);
    if (accepted) {
      lower.push([seen, current]);
      upper.push([seen, current + bar(state, decision, current)]);
    }
  }
  const end = Math.max(state.stats?.seen ?? 0, known.at(-1).seen);
  lower.push([end, lower.at(-1)[1]]);
  upper.push([end, upper.at(-1)[1]]);
  const banded = upper.every(([, value]) => Number.isFinite(value));
  const values = [...lower, ...now, ...(banded ? upper : [])].map(([, value]) => value);
  const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  const room = 0.08 * (high - low) || 0.01;
  const chart = frame(host, {
    height: HEIGHT, x: [from, end], y: [Math.max(0, low - room), high + room],
    xLabel: "examples seen", yLabel: "quality, bits", margin: { left: 52 },
    xText: last ? count : undefined,
  });
  const at = (points) => points.map(([x, y]) => [chart.sx(x), chart.sy(y)]);
  if (banded) chart.root.append(element("path", { class: "band", d: line([...at(upper), ...at(lower).reverse()]) + "Z" }));
  chart.root.append(
    element("path", { class: "stroke snapshot", d: line(thinned(at(lower))) }),
    element("path", { class: "stroke current", d: line(thinned(at(now))) }),
  );
  const place = (decision) => [chart.sx(decision.seen), measured(decision.current) && !isEvent(decision) ? chart.sy(decision.current) : chart.base];
  for (const alarm of shown.filter((each) => each.kind === "alarm")) {
    const x = chart.sx(alarm.seen);
    chart.root.append(element("line", { class: "alarm", x1: x, x2: x, y1: chart.sy(high + room), y2: chart.base }));
  }
  chart.root.append(marks(measuredShown, place)); // a mark at the base would read as a measurement
  cursor.moved(shown.map((decision) => {
    const [x, y] = place(decision);
    return { id: decision.number, x, y, get lines() { return describe(decision, state); } };
  }), chart);
  if (byId("decisions").open) table(state);
}

export function table(state) {
  const cell = (text) => html("td", { textContent: text });
  const value = (number) => (measured(number) ? bits(number) : "\u2013");
  byId("decisions").querySelector("tbody").replaceChildren(...state.decisions.slice(-TABLE_ROWS).reverse().map((each) =>
    html("tr", { className: each.accepted ? "yes" : "" }, cell(each.number), cell(count(each.seen)), cell(value(each.current)),
      cell(value(each.snapshot)), cell(isEvent(each) ? each.kind : each.accepted ? "yes" : "no"), cell(each.reason))));
}

// The snapshot's quality when it was accepted and now; it falls when the stream drifts.
export function drift(all) {
  const decisions = all.filter((each) => !isEvent(each));
  const at = decisions.findLastIndex((each) => each.accepted);
  if (at < 0) return null;
  const after = decisions.slice(at + 1).filter((each) => measured(each.snapshot));
  const then = measured(decisions[at].current) ? decisions[at].current : after[0]?.snapshot;
  if (!measured(then)) return null;
  const now = after.at(-1)?.snapshot ?? then;
  return { then, now, text: signed(now - then) };
}
