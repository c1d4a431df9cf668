"""The paper's own names and numbers, restated in ``paper.json``, and its slips about them."""

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from .definition import Definition
from .jobs import Job, Parameters

PAPER = Path(__file__).with_name("paper.json")
DATASET_NAMES = {"cifar10": "CIFAR-10", "places205": "Places205", "labelme": "LabelMe"}
METHOD_NAMES = {
    "okh": "OKH",
    "osh": "OSH",
    "adapthash": "AdaptHash",
    "sketchhash": "SketchHash",
    "mihash": "MIHash",
    "hcoh": "HCOH",
    "hmoh": "HMOH",
    "lsh": "LSH",
    "randomrotation": "RandomRotation",
    "refit": "Refit",
    "momenthash": "MomentHash",
    "shk": "SHK",
    "sdh": "SDH",
    "fasthash": "FastHash",
    "itq": "ITQ",
    "vdsh": "VDSH-like",
    "dpsh": "DPSH",
    "dtsh": "DTSH",
    "mihash-joint": "MIHash + classifier",
    "classifier": "classifier alone",
}

PAPERS_MIHASH: Parameters = (("warm_up", 0), ("whiten", None))
"""The arguments with which the online learner is the paper's (Sec. 3.2)."""


def row_name(job: Job, others: Iterable[Job] = ()) -> str:
    """Return what an online method is called, with what differs from its other settings among ``others``.

    MIHash as in the paper has the plain name; with whitening, which is ours, the name says so.

    Examples
    --------
    >>> paper, ours = (Job("online", "cifar10", "mihash", each, 32) for each in (PAPERS_MIHASH, ()))
    >>> row_name(paper), row_name(ours)
    ('MIHash', 'MIHash, whitened (ours)')
    """
    given, name, in_name = dict(job.parameters), METHOD_NAMES.get(job.method, job.method), set()
    if job.method == "mihash" and not as_published(job):
        names = [key for key, _ in PAPERS_MIHASH if key in given]
        own = [f"{key} = {given[key]}" for key in names] or ["whitened (ours)"]
        name, in_name = ", ".join([name, *own]), set(names)
    elif job.method == "osh" and not as_published(job):
        name, in_name = f"{name}, {given['loss']} loss", {"loss"}
    elif job.method == "mihash":
        in_name = set(dict(PAPERS_MIHASH))
    same = (job.method, job.dataset, job.n_bits)
    settings = [set(each.parameters) for each in others if (each.method, each.dataset, each.n_bits) == same]
    common = set.intersection(*settings) if settings else set(job.parameters)
    rest = [
        f"{key} = {value}" for key, value in job.parameters if key not in in_name and (key, value) not in common
    ]
    return ", ".join([name, *rest])


def as_published(job: Job) -> bool:
    """Tell whether an online method is the published one: MIHash without whitening, OSH with boosting.

    Examples
    --------
    >>> [as_published(Job("online", "cifar10", name, (), 32)) for name in ("osh", "mihash")]
    [True, False]
    """
    given = dict(job.parameters)
    if job.method == "mihash":
        return all(key in given and given[key] == value for key, value in PAPERS_MIHASH)
    return job.method != "osh" or given.get("loss", "exponential") == "exponential"


def dataset_title(name: str) -> str:
    """Return what a data set is called for a person; one that is not the paper's is called as its results are.

    Examples
    --------
    >>> dataset_title("cifar10"), dataset_title("mine-3f9a1c")
    ('CIFAR-10', 'mine-3f9a1c')
    """
    return DATASET_NAMES.get(name, name)


def paper_rows(draws: str, dataset: str, method: str, n_bits: int | None = 32) -> list[dict[str, Any]]:
    """Return the paper's rows for a method; none where the paper prints none.

    Parameters
    ----------
    draws
        What the paper's table shows: ``"times"``, ``"thetas"``, ``"intervals"``, ``"lengths"`` or ``"training"``.
    dataset, method, n_bits
        Of what; ``n_bits`` is None for a table of several code lengths.

    Examples
    --------
    >>> paper_rows("thetas", "cifar10", "okh")[3]
    {'theta': '0', 'updates': 8.0, 'area': 0.287, 'change': 10.8}
    >>> paper_rows("thetas", "labelme", "osh")
    []
    """
    for table in _paper()["tables"].values():
        if (table["draws"], table["dataset"], table["n_bits"]) == (draws, dataset, n_bits):
            rows: list[dict[str, Any]] = table["methods"].get(method, [])
            return rows
    return []


def covers(row: dict[str, Any], job: Job) -> bool:
    """Tell whether a row of the paper is about the threshold of a job; the fixed rate is the lowest one."""
    text = row["theta"]
    theta = float("-inf") if job.theta is None else job.theta
    if text.startswith("<="):
        return theta <= float(text[2:])
    return theta >= float(text[2:]) if text.startswith(">=") else theta == float(text)


def slips(definition: Definition) -> Iterator[str]:
    """Yield the paper's own slips about what a definition shows of the paper's data sets."""
    if not set(definition.datasets) & set(DATASET_NAMES):
        return
    about = {definition.name} | {
        name
        for name, table in _paper()["tables"].items()
        if table["draws"] == definition.draws
        and table["dataset"] in definition.datasets
        and table["n_bits"] in definition.bits
    }
    for note in _paper()["notes"]:
        if about & set(note["tables"]):
            yield f"In the paper: {note['text']}"


@lru_cache(maxsize=1)
def _paper() -> dict[str, Any]:
    paper: dict[str, Any] = json.loads(PAPER.read_text(encoding="utf-8"))
    return paper
