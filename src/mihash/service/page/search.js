// Search by a key or a vector. Stored metadata is not trusted: it reaches the page as text, or as an image that is
// requested without a referrer.

import { post } from "./api.js";
import { byId, count, html, plural } from "./draw.js";
import { read, whole, write } from "./exact.js";

const IMAGE_NAME = /^(image|img|picture|photo|thumb(nail)?|icon|(image|img|thumbnail)_?ur[il])$/i;
const IMAGE_FILE = /\.(png|jpe?g|gif|webp|avif|svg|bmp)$/i;
const IMAGE_DATA = /^data:image\/(png|jpe?g|gif|webp|avif|bmp|svg\+xml)[;,]/i;
const MEASURES = { margin: "Hamming, weighted by the margins of the query", euclidean: "Euclidean", cosine: "cosines" };
const NUMBERS = /^[\s,;+\-.\deE]+$/;

let n_bits = 64;
let full = 32; // the distance of a full bar

// A quoted text is a key, an integer is a key, several numbers are a vector, anything else is a key.
export function parse(text) {
  const trimmed = text.trim();
  if (!trimmed) throw new Error("Enter a key or a vector.");
  if (/^["[]/.test(trimmed)) {
    const value = read(trimmed);
    if (typeof value === "string") return { key: value };
    const row = Array.isArray(value[0]) ? value[0] : value;
    if (!row.length || !row.every((x) => typeof x === "number" || typeof x === "bigint")) throw new Error("A vector is a list of numbers.");
    return { vectors: [row.map(Number)] };
  }
  if (/^-?\d+$/.test(trimmed)) return { key: whole(trimmed) };
  const parts = trimmed.split(/[\s,;]+/).filter(Boolean);
  if (NUMBERS.test(trimmed) && parts.length > 1 && parts.every((part) => Number.isFinite(Number(part)))) {
    return { vectors: [parts.map(Number)] };
  }
  return { key: trimmed };
}

export function imageOf(metadata) {
  for (const [name, value] of Object.entries(metadata ?? {})) {
    if (typeof value !== "string") continue;
    if (IMAGE_DATA.test(value)) return { name, source: value };
    if (!IMAGE_NAME.test(name) && !/^(https?:)?\//i.test(value)) continue;
    let url;
    try {
      url = new URL(value, document.baseURI);
    } catch {
      continue;
    }
    const safe = url.protocol === "https:" || url.origin === location.origin;
    if (safe && (IMAGE_NAME.test(name) || IMAGE_FILE.test(url.pathname))) return { name, source: url.href };
  }
  return null;
}

function picture(image) {
  const made = html("img", { alt: "", referrerPolicy: "no-referrer", loading: "lazy", decoding: "async" });
  made.addEventListener("error", () => made.remove());
  made.addEventListener("load", () => made.classList.toggle("coarse", made.naturalWidth < 48));
  made.src = image.source;
  return made;
}

function facts(metadata, image) {
  const list = html("dl", { className: "facts" });
  for (const [name, value] of Object.entries(metadata ?? {})) {
    if (name === image?.name) continue;
    const text = typeof value === "string" ? value : write(value);
    list.append(html("div", {}, html("dt", { textContent: name }), html("dd", { textContent: text.length > 200 ? text.slice(0, 199) + "\u2026" : text })));
  }
  return list;
}

// A key in the list; one with invisible characters, such as a line feed, is shown as JSON.
export function shown(key) {
  if (typeof key !== "string" || /^[^\s\p{C}]([^\p{C}]*[^\s\p{C}])?$/u.test(key)) return String(key);
  const hidden = /[\u007f-\u00a0\u00ad\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]/g;
  return JSON.stringify(key).replace(hidden, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function hit(key, distance, metadata) {
  const image = imageOf(metadata);
  const again = html("button", { type: "button", className: "link", textContent: shown(key), title: "Search near this item" });
  again.addEventListener("click", () => {
    byId("query").value = typeof key === "string" ? JSON.stringify(key) : String(key);
    byId("search").requestSubmit();
  });
  const bar = html("span", { className: "bar" }, html("i"));
  bar.firstChild.style.width = `${Math.min(100, (100 * distance) / full || 0)}%`;
  const far = html("span", { className: "far" }, bar, html("span", { textContent: Number.isInteger(distance) ? `${distance}` : distance.toFixed(3) }));
  far.setAttribute("aria-label", `distance ${distance}`);
  const frame = html("span", { className: "thumb" });
  if (image) frame.append(picture(image));
  return html("li", { className: image ? "with-image" : "" }, frame, html("div", {}, html("div", { className: "hit" }, again, far), facts(metadata, image)));
}

// The filter and the number of candidates to rank again, where they are given.
function options() {
  const given = {};
  const where = byId("where").value.trim();
  if (where) {
    try {
      given.where = read(where);
    } catch {
      throw new Error('The filter must be JSON, such as {"year": {"$gte": 2000}}.');
    }
  }
  const rescore = byId("rescore").value.trim();
  if (rescore) given.rescore = Number(rescore);
  return given;
}

async function ask(body) {
  try {
    return await post("search", body);
  } catch (error) {
    if (error.status !== 404 || !["number", "bigint"].includes(typeof body.key)) throw error;
    return post("search", { ...body, key: String(body.key) }); // the keys of the index are strings
  }
}

let newest = 0; // the number of the last search: an answer to an earlier one comes too late, and is not shown

async function search(event) {
  event.preventDefault();
  const note = byId("search-note");
  const number = ++newest;
  let wanted;
  try {
    wanted = { ...parse(byId("query").value), ...options() };
  } catch (error) {
    note.textContent = error instanceof SyntaxError ? "This is neither a key nor a list of numbers." : error.message;
    note.dataset.state = "bad";
    return;
  }
  note.dataset.state = "";
  note.textContent = "Searching";
  try {
    const began = performance.now();
    const answer = await ask({ ...wanted, k: Number(byId("k").value) || 10, metadata: true });
    const took_ms = performance.now() - began;
    if (number !== newest) return;
    const { keys, distances, metadata } = answer.results[0];
    const hamming = (answer.measure ?? "hamming") === "hamming";
    full = hamming ? n_bits / 2 : Math.max(...distances, 0) || 1;
    const scale = hamming ? `${count(n_bits / 2)} of ${n_bits} bits, the distance of two unrelated items` : `the farthest of these; distances are ${MEASURES[answer.measure] ?? answer.measure}`;
    byId("results").replaceChildren(...keys.map((key, i) => hit(key, distances[i], metadata?.[i])));
    note.textContent = keys.length
      ? `${plural(keys.length, "item")} of version ${answer.version} in ${took_ms.toFixed(0)} ms. A full bar is ${scale}.`
      : wanted.where ? "No item matches." : "Nothing is stored yet.";
  } catch (error) {
    if (number !== newest) return;
    note.dataset.state = "bad";
    note.textContent = error.status ? error.message : "The service did not answer.";
    byId("results").replaceChildren();
  }
}

export function start() {
  byId("search").addEventListener("submit", search);
  byId("query").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    byId("search").requestSubmit();
  });
}

export function draw(state) {
  n_bits = state.stats?.n_bits ?? n_bits;
  const width = state.stats?.n_features;
  byId("width").textContent = width ? ` of ${width} numbers` : "";
}
