"""What networks trained end to end gave, as a table with the paper's rows beside ours (Table 1, Setting 2)."""

from collections.abc import Iterator, Sequence

import numpy as np

from .published import METHOD_NAMES, dataset_title, paper_rows
from .setting2.reproduction import Trained

Row = dict[str, str]


def end_to_end(found: Sequence[Trained]) -> Iterator[Row]:
    """Yield a row for each method: mAP by code length, and seconds of a training."""
    bits = sorted({each.n_bits for each in found})
    for method in dict.fromkeys(each.method for each in found):
        own = {each.n_bits: each for each in found if each.method == method}
        row = {"data set": dataset_title("cifar10"), "bits": "", "method": METHOD_NAMES[method]}
        row |= {f"{n_bits} bits": f"{own[n_bits].mean:.4f}" for n_bits in bits}
        spent = [
            sum(trial["times"][part] for part in ("warm_up", "training"))
            for each in own.values()
            for trial in each.trials
        ]
        row["a training, s"] = f"{np.median(spent):.0f}"
        row |= {f"paper: {n_bits} bits": "" for n_bits in bits}
        for theirs in paper_rows("end-to-end", "cifar10", method, None):
            printed = {f"paper: {n_bits} bits": theirs["map"].get(str(n_bits)) for n_bits in bits}
            row |= {name: f"{value:.3f}" for name, value in printed.items() if value is not None}
        yield row


def training_notes(found: Sequence[Trained]) -> Iterator[str]:
    """Yield how many seeds there were, what was trained on what, and where."""
    first = found[0].trials[0]
    n_trials = max(len(each.trials) for each in found)
    if n_trials > 1:
        spread = max(float(np.std(each.values, ddof=1)) for each in found if len(each.trials) > 1)
        yield f"Means over {n_trials} seeds; the largest standard deviation of mAP over them is {spread:.4f}."
    else:
        yield "One seed."
    sizes, recipe = first["sizes"], first["run"]["recipe"]
    yield (
        f"Learned from {sizes['learn']:,} images of {first['data']!r}, {sizes['query']:,} queries, "
        f"{sizes['base']:,} to search; all are ranked, ties count as expected."
    )
    yield (
        f"A {recipe['network']} of width {recipe['width']} from random weights, {recipe['epochs']} epochs in all, "
        "part of them as a classifier; the paper fine-tunes a VGG-F that knows ImageNet. Compare order and signs."
    )
    device = first["machine"]["device"]
    here = f"{device}, torch {first['versions']['torch']}"
    if found[0].shipped:
        yield f"These results come with mihash: {here}, four trainings at a time."
    else:
        yield f"Trained on {here}."
