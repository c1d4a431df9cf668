"""The command of Setting 2."""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InvalidInput, MIHashError, UnknownName
from ..datasets.cifar10 import Images, cifar10_images
from ..results import read_result, write_result
from .recipes import RECIPES, Training
from .scoring import score
from .training import train

BITS = (16, 24, 32, 48)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what the command line asks for; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        if options.score:
            for path in sorted(options.out.glob("setting2-*.json")):
                print(f"{path.stem}: {score(path):.4f}")
            return 0
        images = cifar10_images(options.data)
        _run_all(list(_wanted(options)), images, options)
    except MIHashError as error:
        print(f"setting2: {error}", file=sys.stderr)
        return 2
    return 0


def _run_all(runs: list[Training], images: Images, options: argparse.Namespace) -> None:
    """Make what is not there yet, until the time is up."""
    start, longest = time.perf_counter(), 0.0
    warm: dict[Any, Any] = {}
    for wanted in runs:
        path = options.out / f"{wanted.name}.json"
        done = read_result(path)
        if done is not None:
            if done.get("recipe") != asdict(wanted.recipe):
                raise InvalidInput(f"{path} was made with another recipe. Give a --tag, or remove it.")
            continue
        began = time.perf_counter()
        if options.limit and began - start + 1.2 * longest > options.limit:
            print("The time is up; start again for the rest.")
            return
        result, codes = train(wanted, images, options.device, warm)
        options.out.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path.with_suffix(".npz"), **codes)  # type: ignore[arg-type]
        write_result(path, result)
        longest = max(longest, time.perf_counter() - began)
        print(f"{wanted.name}: mAP {result['metrics']['mAP_device']:.4f}, {time.perf_counter() - began:.1f} s")


def _wanted(options: argparse.Namespace) -> Iterator[Training]:
    unknown = [name for name in options.methods if name not in RECIPES]
    if unknown:
        raise UnknownName(f"There is no method {unknown[0]!r}; known: {', '.join(RECIPES)}.")
    settings = [*options.set, *([f"epochs={options.epochs}"] if options.epochs else [])]
    for seed in options.seeds:
        for n_bits in options.bits:
            for method in options.methods:
                recipe = RECIPES[method].changed(settings)
                yield Training(method, n_bits, seed, recipe, options.tag, options.validate)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m mihash.paper.setting2", description="Setting 2 of Table 1")
    parser.add_argument("--device", default="cpu", help="where to train")
    parser.add_argument("--data", type=Path, help="the folder or archive with CIFAR-10's images (MIHASH_DATA)")
    parser.add_argument("--out", type=Path, required=True, help="the folder of results")
    parser.add_argument("--methods", nargs="+", default=list(RECIPES), help="which methods")
    parser.add_argument("--bits", nargs="+", type=int, default=list(BITS), help="which code lengths")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1], help="which seeds")
    parser.add_argument("--epochs", type=int, help="how often to go through the data")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="change the recipe")
    parser.add_argument("--tag", default="", help="what to add to the names of results")
    parser.add_argument("--validate", action="store_true", help="choose parameters: leave the test images alone")
    parser.add_argument("--limit", type=float, default=0, help="start no run that may end after so many seconds")
    parser.add_argument("--score", action="store_true", help="only measure mAP of the codes in the folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
