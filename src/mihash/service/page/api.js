// The HTTP interface: requests with the token, and the stream of events, which is read by fetch because an
// EventSource cannot send headers.

import { read, write } from "./exact.js";

const ROOT = new URL("v1/", document.baseURI);
const SILENCE_MS = 15_000; // the service sends an event each second
const LONGEST_WAIT_S = 10;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let asking = null;

function ask(refused) {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("ask");
    const field = document.getElementById("token");
    if (refused) document.getElementById("ask-note").textContent = "That token was refused. Try again.";
    field.value = "";
    dialog.addEventListener("cancel", (event) => event.preventDefault(), { once: true });
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("mihash-token", field.value);
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

async function send(path, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem("mihash-token");
    const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const response = await fetch(new URL(path, ROOT), { cache: "no-store", ...options, headers });
    if (response.status === 401) {
      if (token === sessionStorage.getItem("mihash-token")) await ask(Boolean(token));
      continue;
    }
    if (response.ok) return response;
    const body = await response.json().catch(() => null);
    throw new Refused(response.status, body?.error?.message ?? `The service answered ${response.status}.`);
  }
}

export async function get(path) {
  return read(await (await send(path)).text());
}

export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return read(await (await send(path, { method: "POST", headers, body: write(body) })).text());
}

async function* messages(body, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    text += value.replaceAll("\r", "");
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const lines = part.split("\n");
      const field = (name) => lines.filter((line) => line.startsWith(name + ":"))
        .map((line) => line.slice(name.length + 1).trimStart()).join("\n");
      if (field("data")) yield { name: field("event") || "message", data: JSON.parse(field("data")) };
    }
  }
}

// Follow the events for ever; `on.open` is awaited at each connection, `on.lost` is called when one ends, with the
// message of a service that refuses it.
export async function follow(on) {
  for (let wait_s = 1; ; wait_s = Math.min(2 * wait_s, LONGEST_WAIT_S)) {
    const stop = new AbortController();
    let watchdog;
    let refused = null;
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => stop.abort(), SILENCE_MS);
    };
    try {
      const response = await send("events", { signal: stop.signal });
      alive();
      await on.open();
      for await (const message of messages(response.body, alive)) {
        wait_s = 1;
        on.message(message.name, message.data);
      }
    } catch (error) {
      // the next connection shows whether the error persists
      if (error instanceof Refused && error.status !== 503) refused = error.message;
    }
    clearTimeout(watchdog);
    stop.abort();
    on.lost(refused);
    await new Promise((resolve) => setTimeout(resolve, 1000 * wait_s));
  }
}
