"""Draws an IVF-PQ of FAISS on a stream that changes, retrained by the clock, by row count, and by the trigger.

Run it with a file of CIFAR-10's features: ``python docs/images/retraining.py cifar10_vgg16.npz``; 32 principal
components of them are used. Ten classes come in five phases: two new classes each time, and one row in five of the
classes before. A day brings 100 to 900 rows. Each day the rows are asked for before they are stored: recall@10 is the share of their
ten true nearest stored rows that the index finds. A table is made again from all rows after each retraining.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

import mihash
from mihash.io.adapters.faiss_quantizers import faiss_quantizer

HERE = Path(__file__).parent
DAYS, CLOCK, KIND = 40, 5, "IVF32,PQ8x4"
SAMPLE, TESTED, THETA = 3000, 400, 0.02
Rows = NDArray[np.float32]


def days(X: Rows, y: NDArray[np.int64], changes: list[int], seed: int = 0) -> Iterator[Rows]:
    """Yield the rows of each day; two new classes come at each change."""
    rng = np.random.default_rng(seed)
    left = [list(rng.permutation(np.flatnonzero(y == each))) for each in range(10)]
    for day in range(DAYS):
        newest = 2 * sum(day >= change for change in changes)
        n = int(rng.integers(100, 901))
        classes = np.where(rng.random(n) < 0.2, rng.integers(0, newest + 2, n), newest + rng.integers(0, 2, n))
        yield X[[left[each].pop() for each in classes]]


def trained(rows: Rows) -> Any:
    """Return an index that was trained on rows and is empty."""
    index = faiss.index_factory(rows.shape[1], KIND)
    index.nprobe = 8
    index.train(rows)
    return index


class Policy:
    """Says each day whether to retrain, and counts."""

    def __init__(self, name: str, wants: Callable[["Policy", int, Rows], bool]) -> None:
        self.name, self._wants = name, wants
        self.index: Any = None
        self.last = 0
        self.n_last = self.stored = 0
        self.retrained: list[int] = []
        self.encoded = 0
        self.recall: list[float] = []

    def live(self, day: int, stored: Rows, new: Rows, recent: Rows, truth: NDArray[np.int64]) -> None:
        """Answer the rows of a day, decide, and store them."""
        if self.index is not None:
            _, found = self.index.search(new, 10)
            hits = (truth[:, :, None] == found[:, None]) & (truth[:, :, None] >= 0)
            self.recall.append(float(hits.sum() / (truth >= 0).sum()))
        everything = np.concatenate([stored, new])
        self.stored = len(everything)
        if self.index is None or self._wants(self, day, new):
            self.index = trained(recent)
            self.index.add(everything)
            self.retrained.append(day)
            self.last, self.n_last = day, len(everything)
            self.encoded += len(everything)
        else:
            self.index.add(new)


class Trigger:
    """The trigger of this package around FAISS.

    A candidate is trained on a sample of the last rows, and both are measured on the newest rows, which it has not seen.
    """

    def __init__(self) -> None:
        self.sample = mihash.Reservoir(SAMPLE, seed=0, memory=SAMPLE)
        self.newest = np.empty((0, 1), dtype=np.float32)
        self.trigger = mihash.TriggerUpdate(THETA)

    def __call__(self, policy: "Policy", day: int, new: Rows) -> bool:
        """Decide, then let the sample take the rows that were tested on."""
        newest = np.concatenate([self.newest, new]) if len(self.newest) else new
        update = False
        if len(newest) >= TESTED and len(self.sample):
            candidate, current = faiss_quantizer(trained(self.sample.X)), faiss_quantizer(policy.index)
            update = self.trigger.decide(candidate, current, newest, quality="recall@10").update
        if len(newest) >= TESTED:
            self.sample.add(newest)
            newest = newest[:0]
        self.newest = newest
        return update


def run(X: Rows, y: NDArray[np.int64], changes: list[int]) -> dict[str, Any]:
    """Return what each policy did on the same days."""
    trigger = Trigger()
    policies = [
        Policy("never", lambda *_: False),
        Policy(f"by the clock: every {CLOCK} days", lambda policy, day, new: day - policy.last >= CLOCK),
        Policy("by row count: when it has doubled", lambda policy, day, new: policy.stored >= 2 * policy.n_last),
        Policy(f"by the trigger: recall@10 +{THETA:g}", trigger),
    ]
    stored = np.empty((0, X.shape[1]), dtype=np.float32)
    exact = faiss.IndexFlatL2(X.shape[1])
    sample = mihash.Reservoir(SAMPLE, seed=0, memory=SAMPLE)
    for day, new in enumerate(days(X, y, changes)):
        truth = exact.search(new, 10)[1]
        sample.add(new)
        for policy in policies:
            policy.live(day, stored, new, sample.X, truth)
        stored = np.concatenate([stored, new])
        exact.add(new)
    return {
        policy.name: {"recall": policy.recall, "retrained": policy.retrained, "encoded": policy.encoded}
        for policy in policies
    }


def draw(found: dict[str, Any], changes: list[int], out: Path) -> None:
    """Draw recall over the days, with a mark for each retraining."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    for name, each in found.items():
        smooth = np.convolve(each["recall"], np.ones(3) / 3, mode="valid")
        n = len(each["retrained"]) - 1
        label = f"{name}: {np.mean(each['recall']):.3f}, {n} retrainings, {each['encoded']:,} rows encoded"
        (line,) = axes.plot(np.arange(len(smooth)) + 2, smooth, label=label, linewidth=1.3)
        axes.plot(each["retrained"][1:], [axes.get_ylim()[0]] * n, "|", color=line.get_color(), markersize=9)
    for day in changes:
        axes.axvline(day, color="0.8", linewidth=0.8, zorder=0)
    axes.set_xlabel("day (grey: two new classes come)")
    axes.set_ylabel("recall@10 of the day's rows")
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    figure.savefig(out, dpi=120, metadata={"Software": None})


def main() -> None:
    """Run, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="cifar10_vgg16.npz")
    parser.add_argument("--changes", type=int, nargs=4, default=[8, 16, 24, 32], help="days of the changes")
    parser.add_argument("--out", type=Path, default=HERE / "retraining.png", help="the picture")
    arguments = parser.parse_args()
    data = np.load(arguments.file)
    faiss.omp_set_num_threads(1)
    X = data["features"].astype(np.float32)
    pca = faiss.PCAMatrix(X.shape[1], 32)
    pca.train(X[:2000])
    found = run(pca.apply(X), data["labels"].astype(np.int64), arguments.changes)
    for name, each in found.items():
        n = len(each["retrained"]) - 1
        print(f"{name:40} {np.mean(each['recall']):.3f} {n:3} {each['encoded']:9,} {each['retrained']}")
    draw(found, arguments.changes, arguments.out)


if __name__ == "__main__":
    main()
