// The page: the state of the index, the events that change it, and the panels that draw it.

import { follow, get } from "./api.js";
import * as distances from "./distances.js";
import { byId } from "./draw.js";
import * as numbers from "./numbers.js";
import * as quality from "./quality.js";
import * as search from "./search.js";
import * as shards from "./shards.js";
import { isFixed, neighborhoods, summary } from "./summary.js";
import * as updates from "./updates.js";

const state = { stats: null, decisions: [], versions: [], migration: null, hindsight: null };
const PAGE = 5000;
const GATHER_MS = 250; // decisions within this time are fetched together
const LOOK_MS = 5000; // between two looks at a migration

let drawing = false;
function redraw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    tell(summary(state));
    for (const panel of [numbers, shards, quality, updates, search]) panel.draw(state);
    about();
  });
}

function tell(text) {
  if (byId("state").textContent !== text) byId("state").textContent = text; // a screen reader repeats what is set again
}

function about() {
  const { stats } = state;
  if (!stats) return;
  const price = stats.options?.trigger?.price;
  const theta = price != null ? `a rehash costs ${price} queries`
    : stats.theta == null ? "theta 2 % of the snapshot\u2019s quality" : `theta ${stats.theta} bits`;
  const { trigger: neighbors, here } = neighborhoods(stats);
  byId("neighbors").textContent = here;
  const learned = isFixed(stats) ? ["codes that are not learned, so there are no rehashes"]
    : [theta, `a check every ${stats.interval} examples`, neighbors];
  byId("about").textContent = [`${stats.n_bits} bits`, `learner ${stats.learner}`, stats.metric, ...learned].join(", ") + ".";
  byId("note").hidden = !stats.note;
  byId("note").textContent = stats.note ?? "";
  const trouble = stats.learning_error ?? stats.rehash_error ?? stats.write_error ?? stats.warning;
  byId("alert").hidden = !trouble;
  byId("alert").textContent = trouble ?? "";
}

async function catchUp() {
  for (;;) {
    const after = state.decisions.at(-1)?.number ?? -1;
    const { points } = await get(`quality?after=${after}&limit=${PAGE}`);
    state.decisions.push(...points.filter((each) => each.number > after));
    if (points.length < PAGE) break;
  }
  const { versions } = await get("versions");
  state.versions = versions.filter((each) => each.items != null && each.seen != null).sort((a, b) => a.number - b.number);
}

// How far a migration is, and how the rehashes were in hindsight. Neither is there in every index.
async function lookAround() {
  state.migration = await get("migration").catch(() => null);
  state.hindsight = await get("hindsight").catch(() => null);
  redraw();
}

let gathering = null;
function gather() {
  gathering ??= setTimeout(async () => {
    try {
      await catchUp();
    } catch {
      // the next event tries again
    }
    gathering = null;
    redraw();
    distances.refresh(state);
  }, GATHER_MS);
}

function status(kind, text) {
  const box = byId("status");
  if (box.textContent === text) return;
  box.dataset.state = kind;
  box.textContent = text;
  document.body.classList.toggle("stale", kind === "lost");
}

function take(name, data) {
  if (name === "stats") {
    state.stats = data;
    numbers.sample(data);
    redraw();
    distances.refresh(state);
  } else if (name === "decision" || name === "version") {
    gather();
  }
}

function theme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => {
    byId("theme").setAttribute("aria-pressed", dark());
    byId("theme").textContent = dark() ? "Light" : "Dark"; // what a click brings
  };
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem("mihash-theme", root.dataset.theme);
    label();
  });
  system.addEventListener("change", label);
  label();
}

theme();
search.start();
updates.onPick(distances.show);
byId("decisions").addEventListener("toggle", () => quality.table(state));
for (const radio of document.querySelectorAll("[name=span]")) radio.addEventListener("change", redraw);
new ResizeObserver(() => {
  redraw();
  distances.draw();
}).observe(byId("main"));
setInterval(() => {
  if (!document.hidden) lookAround();
}, LOOK_MS);
follow({
  async open() {
    state.stats = await get("stats");
    state.decisions = []; // it may be another index now
    await catchUp();
    status("live", "live");
    lookAround();
    redraw();
    distances.draw();
    distances.refresh(state);
  },
  message: take,
  lost: (refused) => status("lost", refused ? `refused, trying again: ${refused}` : "connection lost, trying again"),
});
redraw();
distances.draw();
