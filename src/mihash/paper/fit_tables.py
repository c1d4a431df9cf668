"""What batch methods and networks gave, as the rows of tables with the paper's beside ours (Tables 1 and 3)."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..batch import FastHash
from .definition import Definition
from .jobs import Job
from .outcomes import Outcome
from .paper_numbers import METHOD_NAMES, dataset_title, paper_rows
from .recipes import IN_ALL, N_TRIALS, Recipe

Row = dict[str, str]
Found = dict[Job, Outcome]

MAPS = {"linear": "linear", "kernel": "RBF", "forest": "trees", "network": "network"}
_NOT_SHOWN = ("kernel", "training", "rho", "beta")
_SETTINGS = {  # what the paper's settings differ in from our own
    "mihash": ("unit_length", "whiten", "n_bins", "scale", "learning_rate", "batch_size", "patience"),
    "fasthash": ("inference", "n_starts", "boosting"),
    "dpsh": ("optimizer", "learning_rate", "epochs"),
    "dtsh": ("optimizer", "learning_rate", "epochs"),
}


def lengths(found: Found) -> Iterator[Row]:
    """Yield a row for each batch method and setting: mAP by code length (Table 1, Setting 1)."""
    for own in _by_length(found):
        first = next(iter(own.values()))
        row = _labels(first) | {f"{n_bits} bits": _precision(each) for n_bits, each in own.items()}
        yield row | _paper_lengths(own, _theirs("lengths", first, None))


def end_to_end(found: Found) -> Iterator[Row]:
    """Yield a row for each network: mAP by code length, and seconds of a training (Table 1, Setting 2)."""
    for own in _by_length(found):
        job = next(iter(own.values())).job
        row = {"data set": dataset_title(job.dataset), "bits": "", "method": METHOD_NAMES[job.method]}
        row |= {"as a classifier": _as_classifier(job.method, job.recipe)}
        row |= {"settings tried": str(N_TRIALS), "in all rounds": IN_ALL[job.method]}
        row |= {f"{n_bits} bits": f"{each.mean('final'):.4f}" for n_bits, each in own.items()}
        if not any(each.shipped for each in own.values()):  # those were not trained one at a time
            times = [trial["times"] for each in own.values() for trial in each.trials]
            row["a training, s"] = f"{np.median([each['warm_up'] + each['training'] for each in times]):.0f}"
        yield row | _paper_lengths(own, paper_rows("end-to-end", job.dataset, job.method, None))


def _as_classifier(method: str, recipe: Recipe) -> str:
    """Return how much of the budget a network is trained as a classifier."""
    if recipe.classification:
        jointly = f"jointly, weight {recipe.classification:g}"
        return f"{recipe.warm_up_epochs} epochs, then {jointly}" if recipe.warm_up_epochs else jointly
    own = recipe.epochs if method == "classifier" else recipe.warm_up_epochs
    return f"{own} of {recipe.epochs} epochs"


def training_times(found: Found) -> Iterator[Row]:
    """Yield a row for each method and setting: mAP, and CPU seconds of training and of one step (Table 3)."""
    for job, each in found.items():
        row = _labels(each) | {"bits": str(job.n_bits), "mAP": _precision(each)}
        numbers = ("", "", "")
        if not each.missing:
            steps = float(np.mean([len(trial["history"]) for trial in each.trials]))
            device = each.trials[0].get("machine", {}).get("device", "cpu")
            where = "" if device == "cpu" else f" on {device}"
            numbers = (f"{each.mean('learning_s'):.2f}{where}", f"{steps:.0f}", f"{each.mean('step_s'):.3f}")
        row |= dict(zip(("CPU s", "steps", "a step, CPU s"), numbers, strict=True)) | {"paper: s": ""}
        for theirs in _theirs("training", each, job.n_bits):
            row["paper: s"] = f"{theirs['learning_s']:g}"
        yield row


def fit_notes(definition: Definition, found: Found) -> Iterator[str]:
    """Yield how many draws there were, what is missing and why, and how the maps compare."""
    counts = {len(each.trials) for each in found.values() if each.trials}
    once = [METHOD_NAMES[name] for name in dict.fromkeys(job.method for job in found) if name in definition.once]
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
        (_where(job, found), setting_name(job)): each.missing for job, each in found.items() if each.missing
    }
    for (where, name), reason in missing.items():
        yield f"{name}{where} has no numbers: it {reason}" if reason[-1] != "." else f"{name}{where}: {reason}"
    yield from _about_vdsh(found)
    if definition.draws == "lengths":
        yield from _across(found)
        return
    bits = sorted({job.n_bits for job in found})
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


def _about_vdsh(found: Found) -> Iterator[str]:
    """Yield what differs from the publication, and where the network was trained."""
    made = [each for job, each in found.items() if job.method == "vdsh" and each.trials]
    if not made:
        return
    yield (
        "VDSH-like has what is known of VDSH: full rectified layers, a least-squares loss on the codes, auxiliary "
        "variables for the layers' outputs, layer-wise solves. Its variables move by gradient steps and have no "
        "duals. The alternating form has duals, and solves for the variables too (docs/divergences.md)."
    )
    if any(each.shipped for each in made):
        device = made[0].trials[0]["machine"]["device"]
        yield f"The results of VDSH-like come with mihash: {device}, twelve trainings at a time."


def network_notes(found: Found) -> Iterator[str]:
    """Yield how many seeds there were, what was trained on what, and where."""
    made = list(found.values())
    first = made[0].trials[0]
    n_trials = max(len(each.trials) for each in made)
    if n_trials > 1:
        spread = max(each.spread("final") for each in made)
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
        "for every method; the paper fine-tunes a VGG-F that was trained on ImageNet. Compare order and signs."
    )
    yield (
        f"Each method has the best of {N_TRIALS} settings on validation images, from a list that was fixed "
        "before. Rounds before that list were not equally long for all methods. MIHash has the paper's loss. "
        "MIHash + classifier adds a classification term and is not the paper's. The classifier alone has "
        "no hashing loss."
    )
    own = next((each.trials[0]["run"]["recipe"] for each in made if each.job.method == "mihash"), None)
    if own is not None:
        yield (
            f"MIHash has A = {own['scale']:g}, K = {own['n_bins']:g} b and minibatches of {own['batch_size']}; "
            "the paper has A from 10 to 50, K = b and minibatches of 250."
        )
    here = f"{first['machine']['device']}, torch {first['versions']['torch']}"
    if made[0].shipped:
        yield f"These results come with mihash: {here}, several trainings at a time."
    else:
        yield f"Trained on {here}."


def one_epoch(job: Job) -> bool:
    """Tell whether a method goes through the data once."""
    return dict(job.parameters).get("epochs") == 1


def setting_name(job: Job) -> str:
    """Return a method's name with what is not usual about it, but for its map.

    Examples
    --------
    >>> setting_name(Job("batch", "cifar10", "shk", (("kernel", "rbf"), ("n_anchors", 1000)), 48))
    'SHK, n_anchors = 1000'
    >>> setting_name(Job("batch", "cifar10", "mihash", (("epochs", 1),), 48))
    'MIHash, our variant, 1 epoch'
    >>> setting_name(Job("batch", "cifar10", "dpsh", (("learning_rate", 1.0), ("optimizer", "sgd")), 48))
    "DPSH, the paper's schedule"
    >>> release = (("n_bins", 16), ("scale", 40.0), ("unit_length", False))
    >>> setting_name(Job("batch", "cifar10", "mihash", release, 48))
    "MIHash, the release's K = 16, A = 40"
    """
    given, name = dict(job.parameters), METHOD_NAMES[job.method]
    in_name: tuple[str, ...] = ()
    if job.method == "mihash" and given.get("unit_length") is False:
        in_name = _SETTINGS["mihash"]
        chosen = f"the release's K = {given.get('n_bins')}, A = {given.get('scale')}".removesuffix(".0")
        name += ", the paper's settings" if papers_settings(job) else f", {chosen}"
    elif job.method == "mihash":
        name += ", our variant"
    elif job.method == "fasthash" and papers_settings(job):
        n_starts = given.get("n_starts", FastHash().n_starts)
        name += f", published form (cuts from {n_starts} start{'s'[: n_starts > 1]})"
        in_name = _SETTINGS["fasthash"]
    elif job.method in ("dpsh", "dtsh") and papers_settings(job):
        name, in_name = f"{name}, the paper's schedule", _SETTINGS[job.method]
    name += ", alternating" if given.get("training") == "alternating" else ""
    hidden = (*_NOT_SHOWN, *in_name)
    shown = [f"{key} = {value}" for key, value in job.parameters if key not in hidden]
    shown = ["1 epoch" if text == "epochs = 1" else text for text in shown]
    return ", ".join([name, *shown])


def papers_settings(job: Job) -> bool:
    """Return whether a batch method has the paper's settings (App. B.3), so that its numbers stand beside.

    Examples
    --------
    >>> [papers_settings(Job("batch", "cifar10", method, (), 48)) for method in ("mihash", "sdh")]
    [False, True]
    """
    given = dict(job.parameters)
    if job.method == "mihash":
        return given.get("unit_length") is False and given.get("n_bins", 0) is None
    if job.method == "vdsh":
        return given.get("training") != "alternating"
    if job.method == "fasthash":
        return (given.get("inference"), given.get("boosting")) == ("cut", "exponential")
    return job.method not in _SETTINGS or given.get("optimizer") == "sgd"


def _by_length(found: Found) -> Iterator[dict[int, Outcome]]:
    """Yield the outcomes of each method and setting by code length, in the order of the lengths."""
    bits = sorted({job.n_bits for job in found})
    for job in dict.fromkeys(replace(job, n_bits=0) for job in found):
        yield {n_bits: found[replace(job, n_bits=n_bits)] for n_bits in bits}


def _paper_lengths(bits: Iterable[int], rows: Iterable[dict[str, Any]]) -> Row:
    """Return the paper's mAP at each code length, as far as it prints it."""
    cells = {f"paper: {n_bits} bits": "" for n_bits in bits}
    for row in rows:
        printed = {f"paper: {n_bits} bits": row["map"].get(str(n_bits)) for n_bits in bits}
        cells |= {name: f"{value:.3f}" for name, value in printed.items() if value is not None}
    return cells


def _labels(each: Outcome) -> Row:
    names = {"data set": dataset_title(each.job.dataset), "bits": "", "method": setting_name(each.job)}
    return names | {"map": MAPS.get(each.mapping, each.mapping)}


def _precision(each: Outcome) -> str:
    return "none" if each.missing else f"{each.mean('final'):.3f}"


def _theirs(draws: str, each: Outcome, n_bits: int | None) -> list[dict[str, Any]]:
    """Return the paper's row for a setting: that of the method, as the paper has it."""
    if "n_anchors" in dict(each.job.parameters) or not papers_settings(each.job):
        return []
    kind = (each.mapping, one_epoch(each.job))
    rows = paper_rows(draws, each.job.dataset, each.job.method, n_bits)
    return [row for row in rows if (row["mapping"], row["one_epoch"]) == kind]


def _across(found: Found) -> Iterator[str]:
    """Yield the best of each kind of map, which the paper compares with one another, for each data set."""
    n_bits = max(job.n_bits for job in found)
    measured = [each for job, each in found.items() if job.n_bits == n_bits and not each.missing]
    ranked = sorted(measured, key=lambda each: -each.mean("final"))
    for dataset in dict.fromkeys(each.job.dataset for each in measured):
        best: dict[str, Outcome] = {}
        for each in ranked:
            if each.job.dataset == dataset:
                best.setdefault(each.mapping, each)
        texts = [f"{MAPS[kind]}: {setting_name(each.job)} {each.mean('final'):.3f}" for kind, each in best.items()]
        where = _where(next(iter(best.values())).job, found)
        yield f"Across maps{where}, {n_bits} bits, the best of each: {'; '.join(texts)}."


def _where(job: Job, found: Found) -> str:
    """Return which data set a note is about, where there are several."""
    several = len({each.dataset for each in found}) > 1
    return f" on {dataset_title(job.dataset)}" if several else ""
