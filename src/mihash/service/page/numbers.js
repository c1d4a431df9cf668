// The row of numbers: items, rates as sparklines, the version that answers, drift.

import { byId, bytes, count, element, line, plural, rate, scale } from "./draw.js";
import { drift } from "./quality.js";

const SAMPLES = 90;
const FEWEST = 30; // the width of a sparkline with few samples
const series = { ingest: [], queries: [] };

export function sample(stats) {
  if (!stats.rates) return;
  for (const [name, value] of [["ingest", stats.rates.rows_per_s], ["queries", stats.rates.queries_per_s]]) {
    series[name].push(value ?? 0);
    if (series[name].length > SAMPLES) series[name].shift();
  }
}

function tile(name, value, note) {
  const box = byId(`tile-${name}`);
  box.querySelector(".value").textContent = value;
  box.querySelector(".note").textContent = note;
}

function spark(name) {
  const host = byId(`tile-${name}`).querySelector(".spark");
  const width = host.clientWidth || 120, height = 30;
  const values = series[name];
  const most = Math.max(...values, 1);
  const slots = Math.max(FEWEST, values.length);
  const x = scale(0, slots - 1, 1, width - 3), y = scale(0, most, height - 2, 3);
  const points = values.map((value, i) => [x(i + slots - values.length), y(value)]);
  const root = element("svg", { width, height });
  if (points.length > 1) {
    const closed = [[points[0][0], height], ...points, [points.at(-1)[0], height]];
    root.append(element("path", { class: "fill", d: line(closed) + "Z" }), element("path", { class: "stroke", d: line(points) }));
  }
  if (points.length) root.append(element("circle", { cx: points.at(-1)[0], cy: points.at(-1)[1], r: 2 }));
  host.replaceChildren(root);
}

export function draw(state) {
  const { stats } = state;
  if (!stats) return;
  tile("items", count(stats.items), [`${bytes(stats.bytes_on_disk ?? 0)} on disk`, stats.deleted && `${count(stats.deleted)} deleted`].filter(Boolean).join(", "));
  tile("ingest", rate(stats.rates?.rows_per_s ?? 0), [`rows per second, ${count(stats.seen ?? 0)} seen`, stats.behind && `${count(stats.behind)} to learn from`].filter(Boolean).join(", "));
  tile("queries", rate(stats.rates?.queries_per_s ?? 0), "per second");
  const doing = stats.paused ? "paused" : stats.rehashing ? "rehashing now" : "up to date";
  tile("version", stats.version == null ? "\u2013" : `${stats.version}`, `${plural(stats.updates ?? 0, "update")} of ${plural(stats.decisions ?? 0, "decision")}, ${doing}`);
  const found = drift(state.decisions);
  tile("drift", found ? found.text : "\u2013", found
    ? `bits: the snapshot\u2019s quality was ${found.then.toFixed(3)} when accepted, is ${found.now.toFixed(3)}`
    : "change of the snapshot\u2019s quality since it was accepted");
  spark("ingest");
  spark("queries");
}
