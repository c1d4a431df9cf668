// The shards of an index on Ray: where they are, which version they answer with, how far they lag.

import { byId, bytes, count, plural } from "./draw.js";

export function draw({ stats }) {
  const shards = stats?.shards ?? [];
  const panel = byId("shards");
  panel.hidden = !shards.length;
  if (!shards.length) return;
  const away = shards.filter((each) => each.state !== "up");
  byId("shards-lead").textContent = away.length
    ? `${plural(away.length, "shard")} of ${shards.length} not up: ${away.map((each) => each.shard).join(", ")}.`
    : `All ${plural(shards.length, "shard")} up.`;
  panel.querySelector("tbody").replaceChildren(...shards.map((each) => {
    const row = document.createElement("tr");
    const cells = [each.shard, each.node, each.state, each.version ?? "\u2013", count(each.items ?? 0), count(each.lag), count(each.restarts), bytes(each.bytes_on_disk ?? 0)];
    row.append(...cells.map((text) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      return cell;
    }));
    return row;
  }));
}
