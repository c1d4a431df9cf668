// The distances of neighbours and of others, now and at any version; where they overlap, information is lost (Fig. 1).

import { get } from "./api.js";
import { byId, count, element, empty, frame, line, percent } from "./draw.js";

const HEIGHT = 240;
const EACH_MS = 2000; // "now" is measured at most this often
const FRESH_MS = 30_000; // a version is measured on the sample of now, which changes slowly

const host = byId("distances-chart");
const slider = byId("version");
const cache = new Map();
let numbers = []; // the versions on the slider, oldest first; its last position is now
let following = true;
let shown = null;
let first = null;
let due = 0;
let asked = 0;
let measuredAt = null;

async function fetched(number) {
  const known = cache.get(number);
  if (known && performance.now() - known.at < FRESH_MS) return known.found;
  const found = await get(`versions/${number}/distances`);
  if (number !== "current") cache.set(number, { found, at: performance.now() });
  return found;
}

const steps = (heights, chart) => heights.flatMap((p, d) => [[chart.sx(d - 0.5), chart.sy(p)], [chart.sx(d + 0.5), chart.sy(p)]]);

function area(heights, chart, kind) {
  const inner = steps(heights, chart);
  const closed = [[inner[0][0], chart.base], ...inner, [inner.at(-1)[0], chart.base]];
  return element("path", { class: kind, d: line(closed) + "Z" });
}

export function draw() {
  if (!shown?.neighbors.some((p) => p > 0)) return empty(host, HEIGHT, "Waiting for a sample of the stream");
  const { neighbors, others, n_bits, information } = shown;
  const overlap = neighbors.map((p, d) => Math.min(p, others[d]));
  const lost = overlap.reduce((sum, p) => sum + p, 0);
  const began = first && first !== shown && first.version !== shown.version && first.neighbors?.length === neighbors.length;
  const most = Math.max(...neighbors, ...others, ...(began ? [...first.neighbors, ...first.others] : []));
  const chart = frame(host, {
    height: HEIGHT, x: [-0.5, n_bits + 0.5], y: [0, most * 1.06], xLabel: `Hamming distance, of ${n_bits} bits`,
    yText: null, xText: (d) => d.toFixed(0), margin: { left: 6, right: 6, top: 8 },
  });
  chart.root.append(area(others, chart, "hill others"), area(neighbors, chart, "hill neighbors"), area(overlap, chart, "overlap"));
  if (began) {
    chart.root.append(element("path", { class: "began others", d: line(steps(first.others, chart)) }),
      element("path", { class: "began neighbors", d: line(steps(first.neighbors, chart)) }));
  }
  byId("began-key").hidden = !began;
  byId("information").textContent = `${information.toFixed(3)} bits`;
  const gained = began ? `; at the start it was ${first.information.toFixed(3)}` : "";
  byId("distances-lead").textContent =
    `The hills overlap by ${percent(lost)}: there a distance cannot separate neighbours from other items. A distance carries ${information.toFixed(3)} bits about who is a neighbour${gained}.`;
}

function name() {
  const at = Number(slider.value);
  const version = numbers[at];
  const text = version ? `version ${version.number}, after ${count(version.seen)} examples` : "the current one, now";
  byId("version-name").textContent = text;
  slider.setAttribute("aria-valuetext", text);
}

async function load(number) {
  const request = ++asked;
  try {
    const found = await fetched(number);
    if (request !== asked) return; // the slider has moved on
    shown = found;
    draw();
  } catch (error) {
    if (request === asked && error.status) byId("distances-lead").textContent = error.message;
  }
}

function wanted() {
  return numbers[Number(slider.value)]?.number ?? "current";
}

slider.addEventListener("input", () => {
  following = Number(slider.value) === numbers.length;
  measuredAt = null;
  name();
  load(wanted());
});

export function show(number) {
  const at = numbers.findIndex((each) => each.number === number);
  if (at < 0) return;
  slider.value = at;
  slider.dispatchEvent(new Event("input"));
  slider.scrollIntoView({ block: "center" });
  slider.focus({ preventScroll: true });
}

// New versions came or examples were learned from: move the slider's end, and measure now again.
export async function refresh(state) {
  const kept = numbers[Number(slider.value)]?.number;
  numbers = state.versions;
  slider.disabled = !numbers.length;
  slider.max = numbers.length;
  slider.value = following ? numbers.length : numbers.findIndex((each) => each.number === kept);
  name();
  const learned = `${state.stats?.seen} ${state.stats?.version}`;
  if (following && learned !== measuredAt && performance.now() >= due && state.stats?.items && !document.hidden) {
    due = performance.now() + EACH_MS;
    measuredAt = learned;
    await load("current");
    if (numbers.length) first = await fetched(numbers[0].number).catch(() => first);
    draw();
  }
}
