// The state of the index in one or two sentences that need no knowledge of hashing.

import { measured, plural } from "./draw.js";

const RECENT = 10; // checks after which a change of the stream is no news
const FEW = 10; // checks before which hindsight says little

// Whether the learner never moves, so that there is nothing to measure and nothing to rehash.
export const isFixed = (stats) => ["lsh", "randomrotation"].includes(stats?.learner);

// Who is a neighbour for the trigger, and among the distances of the sample: without labels a price has a rule of its own.
export function neighborhoods(stats) {
  if (stats.labels) return { trigger: "neighbours share a label", here: "Neighbours share a label." };
  const pairs = "the closest 5 % of pairs in the sample";
  if (stats.options?.trigger?.price == null) return { trigger: `neighbours are ${pairs}`, here: `Neighbours are ${pairs}.` };
  const nearest = "the nearest 1 % of the sample";
  return { trigger: `neighbours of a new row are ${nearest}`, here: `Neighbours are ${pairs}; for the trigger, those of a new row are ${nearest}.` };
}

// How much better the codes would be after a rehash, in per cent, by the last check; null where none was measured.
export function promised(decisions) {
  const last = decisions.findLast((each) => measured(each.current) && measured(each.snapshot) && each.kind !== "alarm" && each.kind !== "price");
  if (!last || !(last.snapshot > 0)) return null;
  return last.accepted ? 0 : Math.max(0, (100 * (last.current - last.snapshot)) / last.snapshot);
}

function doing({ stats, decisions }) {
  if (stats.version == null) return "The index is empty. Add rows to begin.";
  if (stats.learning_error) return `Learning has stopped; version ${stats.version} answers.`;
  if (stats.rehashing) return `Computing all codes again; version ${stats.version} answers meanwhile.`;
  if (stats.paused) return `Rebuilding is paused; version ${stats.version} answers.`;
  if (isFixed(stats)) return "Up to date; these codes are not learned, so there is nothing to rehash.";
  const gain = promised(decisions);
  if (gain === null) return "Up to date; the first check comes with more rows.";
  return gain === 0 ? "Up to date; a rehash would bring nothing." : `Up to date; the next rehash would bring ${gain < 0.05 ? "less than 0.1" : gain.toFixed(1)} %.`;
}

export function summary(state) {
  const { stats, decisions, migration, hindsight } = state;
  if (!stats) return "Waiting for the index.";
  const parts = [doing(state)];
  const alarm = decisions.findLastIndex((each) => each.kind === "alarm");
  if (alarm >= 0 && decisions.length - alarm <= RECENT) parts.push(`The stream changed after ${plural(decisions[alarm].seen, "example")}.`);
  if (stats.recall != null) parts.push(`A search finds ${(100 * stats.recall).toFixed(0)} % of the true nearest ten.`);
  if (migration && migration.state !== "none") parts.push(`Migration: ${migration.advice}`);
  if (hindsight?.ratio != null && hindsight.checks >= FEW) {
    parts.push(`So far the rehashes cost ${(100 * (hindsight.ratio - 1)).toFixed(0)} % more than the best schedule.`);
  }
  return parts.join(" ");
}
