"""What batch methods gave, as the rows of tables with the paper's beside ours (Tables 1 and 3)."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .definition import Definition
from .outcomes import Fitted
from .published import METHOD_NAMES, dataset_title, paper_rows
from .runs import Fit

Row = dict[str, str]
Found = dict[Fit, Fitted]

MAPS = {"linear": "linear", "kernel": "RBF", "forest": "trees", "network": "network"}
_NOT_SHOWN = ("kernel",)


def lengths(found: Found) -> Iterator[Row]:
    """Yield a row for each method and setting: mAP by code length (Table 1)."""
    bits = sorted({fit.n_bits for fit in found})
    for fit in dict.fromkeys(replace(fit, n_bits=0) for fit in found):
        own = {n_bits: found[replace(fit, n_bits=n_bits)] for n_bits in bits}
        row = _labels(next(iter(own.values())))
        row |= {f"{n_bits} bits": _precision(each) for n_bits, each in own.items()}
        row |= {f"paper: {n_bits} bits": "" for n_bits in bits}
        for theirs in _theirs("lengths", next(iter(own.values())), None):
            printed = {f"paper: {n_bits} bits": theirs["map"].get(str(n_bits)) for n_bits in bits}
            row |= {name: f"{value:.3f}" for name, value in printed.items() if value is not None}
        yield row


def trainings(found: Found) -> Iterator[Row]:
    """Yield a row for each method and setting: mAP, and CPU seconds of training and of one step (Table 3)."""
    for fit, each in found.items():
        row = _labels(each) | {"bits": str(fit.n_bits), "mAP": _precision(each)}
        numbers = ("", "", "")
        if not each.missing:
            steps = float(np.mean([len(trial["history"]) for trial in each.trials]))
            numbers = (f"{each.mean('learning_s'):.2f}", f"{steps:.0f}", f"{each.mean('step_s'):.3f}")
        row |= dict(zip(("CPU s", "steps", "a step, CPU s"), numbers, strict=True)) | {"paper: s": ""}
        for theirs in _theirs("training", each, fit.n_bits):
            row["paper: s"] = f"{theirs['learning_s']:g}"
        yield row


def fit_notes(definition: Definition, found: Found) -> Iterator[str]:
    """Yield how many draws there were, what is missing and why, and how the maps compare."""
    counts = {len(each.trials) for each in found.values() if each.trials}
    once = [METHOD_NAMES[name] for name in dict.fromkeys(fit.method for fit in found) if name in definition.once]
    if max(counts, default=1) > 1:
        spread = max((each.spread("final") for each in found.values() if not each.missing), default=0.0)
        yield (
            f"Means over {max(counts)} draws of training and test set"
            + (f", one for {', '.join(once)}" if once else "")
            + f"; the largest standard deviation of mAP over them is {spread:.3f}."
        )
    else:
        yield "One draw of training and test set."
    sizes = sorted({trial["n_train"] for each in found.values() for trial in each.trials})
    classes = all(source.file is None and source.has_labels for source in definition.sources)
    shares = "as many of each class" + ("" if classes else ", where each has one")
    yield f"Learned from {', '.join(f'{size:,}' for size in sizes)} examples, {shares}."
    missing = {
        (_where(fit, found), setting_name(fit)): each.missing for fit, each in found.items() if each.missing
    }
    for (where, name), reason in missing.items():
        yield f"{name}{where} has no numbers: it {reason}" if reason[-1] != "." else f"{name}{where}: {reason}"
    if definition.draws == "lengths":
        yield from _across(found)
        return
    bits = sorted({fit.n_bits for fit in found})
    if bits != sorted(definition.bits):
        yield f"At this scale codes have {', '.join(map(str, bits))} bits."
    yield (
        "A step is an epoch (MIHash, DPSH, DTSH, VDSH), turn (SDH, ITQ) or bit (SHK, FastHash), in the median. "
        "What comes before the first is in the whole alone, unless there is but one: then it is the whole. CPU "
        "seconds, one thread; the paper's are of a 2.3 GHz Xeon E5-2650."
    )
    width = next(iter(found)).n_features
    if width:
        yield f"Features were brought to {width:,} dimensions by a random orthonormal matrix; distances stay."


def one_epoch(fit: Fit) -> bool:
    """Tell whether a method goes through the data once."""
    return dict(fit.parameters).get("epochs") == 1


def setting_name(fit: Fit) -> str:
    """Return a method's name with what is not usual about it, but for its map.

    Examples
    --------
    >>> setting_name(Fit("cifar10", "shk", (("kernel", "rbf"), ("n_anchors", 1000)), 48, 0))
    'SHK, n_anchors = 1000'
    >>> setting_name(Fit("cifar10", "mihash", (("epochs", 1),), 48, 0))
    'MIHash, 1 epoch'
    """
    shown = [f"{name} = {value}" for name, value in fit.parameters if name not in _NOT_SHOWN]
    shown = ["1 epoch" if text == "epochs = 1" else text for text in shown]
    return ", ".join([METHOD_NAMES[fit.method], *shown])


def _labels(each: Fitted) -> Row:
    fit = each.fit
    names = {"data set": dataset_title(fit.dataset), "bits": "", "method": setting_name(fit)}
    return names | {"map": MAPS.get(each.mapping, each.mapping)}


def _precision(each: Fitted) -> str:
    return "none" if each.missing else f"{each.mean('final'):.3f}"


def _theirs(draws: str, each: Fitted, n_bits: int | None) -> Iterable[dict[str, Any]]:
    """Return the paper's row for a setting: that of the method, as the paper has it."""
    if "n_anchors" in dict(each.fit.parameters):
        return []
    kind = (each.mapping, one_epoch(each.fit))
    rows = paper_rows(draws, each.fit.dataset, each.fit.method, n_bits)
    return [row for row in rows if (row["mapping"], row["one_epoch"]) == kind]


def _across(found: Found) -> Iterator[str]:
    """Yield the best of each kind of map, which the paper compares with one another, for each data set."""
    n_bits = max(fit.n_bits for fit in found)
    measured = [each for fit, each in found.items() if fit.n_bits == n_bits and not each.missing]
    ranked = sorted(measured, key=lambda each: -each.mean("final"))
    for dataset in dict.fromkeys(each.fit.dataset for each in measured):
        best: dict[str, Fitted] = {}
        for each in ranked:
            if each.fit.dataset == dataset:
                best.setdefault(each.mapping, each)
        texts = [f"{MAPS[kind]}: {setting_name(each.fit)} {each.mean('final'):.3f}" for kind, each in best.items()]
        where = _where(next(iter(best.values())).fit, found)
        yield f"Across maps{where}, {n_bits} bits, the best of each: {'; '.join(texts)}."


def _where(fit: Fit, found: Found) -> str:
    """Return which data set a note is about, where there are several."""
    several = len({each.dataset for each in found}) > 1
    return f" on {dataset_title(fit.dataset)}" if several else ""
