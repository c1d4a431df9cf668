// The updates on a timeline, with their cost, against a fixed rate of one every `interval` examples (Sec. 4.2).

import { Cursor, byId, compact, count, element, empty, frame, html, percent, plural, seconds } from "./draw.js";

const HEIGHT = 190;
const host = byId("updates-chart");
let show = () => {};
const cursor = new Cursor(host, (number) => show(number));

export function onPick(callback) {
  show = callback;
}

// The number of items over the examples seen: known at each version and now, linear in between.
function growth(state) {
  const known = state.versions.map(({ seen, items }) => [seen, items]);
  known.push([state.stats.seen, state.stats.items]);
  return known.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
}

function itemsAt(known, seen) {
  const next = known.findIndex(([x]) => x >= seen);
  if (next < 0) return known.at(-1)[1];
  if (next === 0) return known[0][1];
  const [[x0, y0], [x1, y1]] = [known[next - 1], known[next]];
  return x1 === x0 ? y1 : y0 + ((y1 - y0) * (seen - x0)) / (x1 - x0);
}

// The cost of the updates, and that of a fixed rate at the measured cost per row.
export function ledger(state) {
  const { seen, interval } = state.stats;
  const built = state.versions.filter((each) => each.items > 0);
  const rows = built.reduce((sum, each) => sum + each.items, 0);
  const spent_s = built.reduce((sum, each) => sum + each.seconds, 0);
  const known = growth(state);
  let area = 0;
  for (let i = 1; i < known.length; i++) area += ((known[i][0] - known[i - 1][0]) * (known[i][1] + known[i - 1][1])) / 2;
  const fixed = Math.floor(seen / interval) + 1;
  const fixedRows = area / interval + (known[0]?.[1] ?? 0);
  return { updates: state.versions.length, rows, spent_s, fixed, fixedRows, fixed_s: rows ? (fixedRows * spent_s) / rows : null, known };
}

function account(name, kind, values) {
  return html("div", { className: kind }, html("dt", { textContent: name }),
    ...values.map(([number, text]) => html("dd", {}, html("b", { textContent: number }), ` ${text}`)));
}

export function draw(state) {
  if (!state.stats?.seen || !state.versions.length) return empty(host, HEIGHT, "Waiting for the first update");
  const { interval, seen } = state.stats;
  const sum = ledger(state);
  const saved = sum.fixed - sum.updates;
  const share = saved / sum.fixed;
  byId("updates-lead").textContent = saved > 0
    ? `${plural(sum.updates, "update")} so far, where one every ${count(interval)} examples would have made ${count(sum.fixed)}: ${percent(share)} of them were saved.`
    : `${plural(sum.updates, "update")} so far, no fewer than one every ${count(interval)} examples would have made: the mapping is still improving fast.`;
  const about = (s) => (s === null ? ["\u2013", "of encoding"] : [s > 0 ? `\u2248 ${seconds(s)}` : "0 s", "of encoding"]);
  byId("ledger").replaceChildren(
    account("trigger", "ours", [[count(sum.updates), sum.updates === 1 ? "update" : "updates"], [compact(sum.rows), "rows"], [seconds(sum.spent_s), "of encoding"]]),
    account(`fixed rate, every ${count(interval)}`, "fixed", [[count(sum.fixed), "updates"], [compact(sum.fixedRows), "rows"], about(sum.fixed_s)]),
    account("saved", "saved", [[count(Math.max(saved, 0)), "updates"], [compact(Math.max(sum.fixedRows - sum.rows, 0)), "rows"],
      about(sum.fixed_s === null ? null : sum.fixed_s - sum.spent_s)]),
  );
  const most = Math.max(...sum.known.map(([, items]) => items), 1);
  const chart = frame(host, {
    height: HEIGHT, x: [0, seen], y: [0, most * 1.05], xLabel: "examples seen", yLabel: "rows computed again",
    yText: compact, margin: { left: 52 },
  });
  const apart = chart.sx(interval) - chart.sx(0);
  if (apart < 5) {
    const top = sum.known.map(([x, y]) => `L${chart.sx(x).toFixed(1)} ${chart.sy(y).toFixed(1)}`).join("");
    chart.root.append(element("path", { class: "fixed", d: `M${chart.sx(0)} ${chart.base}${top}L${chart.sx(seen)} ${chart.base}Z` }));
  } else {
    const wide = Math.max(1, Math.min(apart - 1.5, 10));
    for (let x = interval; x <= seen; x += interval) {
      const y = chart.sy(itemsAt(sum.known, x));
      chart.root.append(element("rect", { class: "fixed", x: chart.sx(x) - wide / 2, y, width: wide, height: Math.max(chart.base - y, 1) }));
    }
  }
  const wide = Math.max(2.5, Math.min(apart - 1.5, 10));
  const points = state.versions.map((version) => {
    const x = chart.sx(version.seen), y = chart.sy(version.items);
    chart.root.append(element("rect", { class: "update", x: x - wide / 2, y: Math.min(y, chart.base - 2), width: wide, height: Math.max(chart.base - y, 2), rx: 1 }));
    const lines = [
      [`version ${version.number}, after ${plural(version.seen, "example")}`, "title"],
      [`${plural(version.items, "row")} in ${seconds(version.seconds)}`, "yes"],
      ["click or Enter: its distances"],
    ];
    return { id: version.number, x, y, lines };
  });
  cursor.moved(points, chart);
}
