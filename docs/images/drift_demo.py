"""Draws drift-demo.png: the stream of `mihash serve --demo` before there was a drift watch, and with it."""

from pathlib import Path

import numpy as np

import mihash
from mihash.loop.learning_loop import Loop
from mihash.paper.drawing import new_figure
from mihash.service.demo_stream import Replay

N, TURN, BITS, RESERVOIR = 12_000, 5000, 32, 1000
SYSTEMS = {
    "MIHash, rehash at a gain of 2 %, no watch (before)": (
        mihash.online.MIHash(BITS), mihash.TriggerUpdate(0.02, relative=True), None, "#9a9a9a",
    ),
    "MomentHash, price of 20 queries, drift watch (now)": (
        mihash.online.MomentHash(BITS), mihash.PriceUpdate(20), mihash.DriftWatch(), "#1f6fb4",
    ),
}  # fmt: skip


def main() -> None:
    data = mihash.datasets.digits()
    replay = Replay(data.X, data.y, side=8, turn_after=TURN)
    parts = [replay.rows(200) for _ in range(N // 200)]
    X, y = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    figure = new_figure(figsize=(9, 3.4), dpi=110, layout="constrained")
    axes = figure.subplots()
    for name, (learner, trigger, drift, colour) in SYSTEMS.items():
        loop = Loop(learner, mihash.Reservoir(RESERVOIR), [trigger], drift=drift, metric="euclidean")
        told, mapping, points = [], None, []
        for at in range(0, N, 200):
            if at >= 600:
                table = mihash.MemoryTable.from_codes(mapping.encode(X[:at]), BITS)
                keys, _ = table.search_codes(mapping.encode(X[at : at + 100]), 10)[:2]
                points.append((at, (y[keys] == y[at : at + 100, None]).mean()))
            loop.feed(X[at : at + 200], y[at : at + 200], lambda check, made, _: told.append((check, made)))
            mapping = [made for _, made in told if made is not None][-1]
        axes.plot(*zip(*points, strict=True), color=colour, label=name, linewidth=1.8)
        for check, _ in told:
            if check.kind == "alarm":
                axes.axvline(check.seen, color="#c8385a", linestyle="--", linewidth=1.2)
    for turn in range(TURN, N, TURN):
        axes.axvline(turn, color="#cccccc", linewidth=4, zorder=0)
    axes.set(xlabel="digits seen; grey: they are turned by 90 degrees, red: alarm", ylabel="same digit among 10 nearest", ylim=(0, 1))
    axes.legend(loc="lower left", frameon=False, fontsize=9)
    figure.savefig(Path(__file__).with_name("drift-demo.png"), metadata={"Software": None})


if __name__ == "__main__":
    main()
