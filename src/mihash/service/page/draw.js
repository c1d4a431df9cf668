// Charts by hand: SVG elements, scales, numbers as text, and a cursor that works with pointer and keyboard.

const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function html(name, attributes = {}, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
}

export const byId = (id) => document.getElementById(id);
export const measured = (value) => typeof value === "number" && Number.isFinite(value);

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const count = (n) => (Math.abs(n) < 1e6 ? whole.format(n) : short.format(n));
export const compact = (n) => (Math.abs(n) < 1e4 ? whole.format(n) : short.format(n));
export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;
export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
export const rate = (n) => (n >= 10 ? count(n) : n.toFixed(n > 0 ? 1 : 0));
export const signed = (value, digits = 4) => `${value < 0 ? "\u2212" : "+"}${Math.abs(value).toFixed(digits)}`;

export function seconds(s) {
  if (s === 0) return "0 s";
  if (s < 1) return `${(1000 * s).toFixed(s < 0.01 ? 1 : 0)} ms`;
  if (s < 120) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  return s < 7200 ? `${(s / 60).toFixed(0)} min` : `${(s / 3600).toFixed(1)} h`;
}

export function bytes(n) {
  const power = Math.min(4, Math.floor(Math.log10(Math.max(n, 1)) / 3));
  return `${(n / 1000 ** power).toFixed(power && n / 1000 ** power < 10 ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

export const scale = (d0, d1, r0, r1) => (value) => r0 + ((value - d0) / (d1 - d0 || 1)) * (r1 - r0);

export function ticks(low, high, n) {
  const rough = (high - low) / n || 1;
  const base = 10 ** Math.floor(Math.log10(rough));
  const step = base * [1, 2, 5, 10].find((times) => base * times >= rough);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-6; i++) found.push(i * step || 0); // never -0
  return { values: found, digits };
}

export const line = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// A fresh drawing in `host`, with axes; text stays at its size because a unit is a pixel.
export function frame(host, { height, x, y, xLabel, yLabel, xText = compact, yText, margin = {} }) {
  const m = { top: 22, right: 12, bottom: 34, left: 46, ...margin };
  const width = Math.max(host.clientWidth, 200);
  const root = element("svg", { width, height, "aria-hidden": "true" });
  const sx = scale(...x, m.left, width - m.right);
  const sy = scale(...y, height - m.bottom, m.top);
  const grid = element("g", { class: "axis" });
  if (yText !== null) {
    const { values, digits } = ticks(...y, Math.max(2, Math.floor(height / 60)));
    for (const value of values) {
      grid.append(element("line", { x1: m.left, x2: width - m.right, y1: sy(value), y2: sy(value) }));
      const text = yText ? yText(value) : value.toFixed(digits);
      grid.append(element("text", { x: m.left - 8, y: sy(value) + 4, "text-anchor": "end" }, text));
    }
  }
  for (const value of ticks(...x, Math.max(2, Math.floor(width / 110))).values) {
    grid.append(element("text", { x: sx(value), y: height - m.bottom + 17, "text-anchor": "middle" }, xText(value)));
  }
  const base = height - m.bottom;
  grid.append(element("line", { class: "base", x1: m.left, x2: width - m.right, y1: base, y2: base }));
  grid.append(element("text", { class: "label", x: width - m.right, y: height - 4, "text-anchor": "end" }, xLabel));
  if (yLabel) grid.append(element("text", { class: "label", x: 0, y: 12 }, yLabel));
  root.append(grid);
  host.querySelector("svg")?.remove();
  host.querySelector(".empty")?.remove();
  host.prepend(root);
  return { root, sx, sy, width, height, left: m.left, right: width - m.right, top: m.top, base };
}

export function empty(host, height, text) {
  if (host.querySelector(".empty")?.textContent === text) return;
  host.querySelector("svg")?.remove();
  host.querySelector(".empty")?.remove();
  const box = html("p", { className: "empty", textContent: text });
  box.style.height = `${height}px`;
  host.prepend(box);
}

// A cursor over the points {id, x, y, lines} of a chart: the nearest under the pointer, the next by an arrow key.
export class Cursor {
  constructor(host, pick = () => {}) {
    Object.assign(this, { host, pick, points: [], chosen: null });
    this.tip = html("div", { className: "tip", hidden: true });
    host.append(this.tip);
    host.addEventListener("pointermove", (event) => this.near(event.clientX - host.getBoundingClientRect().left));
    host.addEventListener("pointerdown", (event) => this.near(event.clientX - host.getBoundingClientRect().left));
    host.addEventListener("pointerleave", () => this.choose(null));
    host.addEventListener("click", () => this.chosen !== null && this.pick(this.chosen));
    host.addEventListener("blur", () => this.choose(null));
    host.addEventListener("focus", () => host.matches(":focus-visible") && this.step(0));
    host.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (step !== undefined) this.step(step);
    else if (event.key === "Escape") this.choose(null);
    else if (event.key === "Enter" && this.chosen !== null) this.pick(this.chosen);
    else return;
    event.preventDefault();
  }

  step(by) {
    if (!this.points.length) return;
    const last = this.points.length - 1;
    const at = this.points.findIndex((point) => point.id === this.chosen);
    const next = at < 0 ? (by === -Infinity ? 0 : last) : Math.min(last, Math.max(0, at + by));
    this.choose(this.points[next].id);
    byId("live").textContent = this.points[next].lines.map(([text]) => text).join(". ");
  }

  near(x) {
    if (!this.points.length) return;
    const nearest = this.points.reduce((best, point) => (Math.abs(point.x - x) <= Math.abs(best.x - x) ? point : best));
    this.choose(nearest.id);
  }

  // After a drawing the cursor stays with its point.
  moved(points, drawing) {
    Object.assign(this, { points, drawing, ring: null });
    this.choose(this.chosen);
  }

  choose(id) {
    const point = this.points.find((each) => each.id === id);
    this.ring?.remove();
    this.ring = null;
    this.chosen = point ? id : null;
    this.tip.hidden = !point;
    if (!point) return;
    const { root, top, base, width } = this.drawing;
    this.ring = element("g", { class: "cursor" },
      element("line", { x1: point.x, x2: point.x, y1: top, y2: base }),
      element("circle", { cx: point.x, cy: point.y, r: 8 }));
    root.append(this.ring);
    this.tip.replaceChildren(...point.lines.map(([text, kind]) => html("p", { className: kind ?? "", textContent: text })));
    const room = this.tip.offsetWidth;
    const left = point.x + 16 + room < width ? point.x + 16 : point.x - 16 - room;
    this.tip.style.left = `${Math.max(0, Math.min(left, width - room))}px`;
    const tall = this.tip.offsetHeight;
    const below = point.y < (top + base) / 2;
    this.tip.style.top = `${Math.max(0, below ? Math.min(point.y + 22, base - tall + 30) : point.y - 22 - tall)}px`;
  }
}
