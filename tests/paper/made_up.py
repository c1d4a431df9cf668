"""Results that were never run, for tests of what reads them."""

import json

from mihash.paper.claims import Claim, judge
from mihash.paper.definition import Definition, load_definition
from mihash.paper.outcomes import Study
from mihash.paper.sources import data_name, find_source

PAPERS = '{ whiten = "none", warm_up = 0 }'  # MIHash as in the paper, about which claims are


def define(draws, datasets=("cifar10",), methods=("okh",), **rest):
    return Definition("tiny", "A title", "online", draws, datasets, methods, **{"trials": 2} | rest)


def write(folder, definition, values, scale="smoke"):
    """Write a result for each run; `values`, or what it returns for a run, replaces what is usual."""
    for run in definition.jobs():
        path = folder / scale / run.path
        path.parent.mkdir(parents=True, exist_ok=True)
        result = {
            "updates": 1,
            "area": 0.5,
            "final": 0.5,
            "precisions": [0.5] * 8,
            "updated_at": [0],
            "seed": 0,
            "scale": scale,
            "data": data_name(find_source(run.dataset), scale),
            "protocol": {
                "rows": 1100,
                "interval": round(100 * run.every),
                "reservoir_size": round(50 * run.share),
                "top": None,
            },
            "times": {"learning_s": 2.0, "deciding_s": 0.5},
        }
        result |= values(run) if callable(values) else values
        if isinstance(result["precisions"], list):
            n_points = len(result["precisions"])
            result = {"examples": [1000 * (i + 1) // n_points for i in range(n_points)]} | result
        path.write_text(json.dumps(result))


class Tree:
    """Definitions and results of their own, in a folder."""

    def __init__(self, folder, scale="smoke"):
        self.folder, self.study = folder, Study(folder, scale)

    def define(self, name, values, **keys):
        keys = {"title": "T", "kind": "online", "draws": "curves", "datasets": ["cifar10"], "trials": 2} | keys
        text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
        path = self.folder / f"{name}.toml"
        if "mihash" in keys.get("methods", ()):
            text += f"\n[parameters]\nmihash = {PAPERS}"
        path.write_text(text.replace("Infinity", "inf").replace("True", "true"))
        write(self.folder, load_definition(path), values, self.study.scale)
        return str(path)

    def file(self, name, content):
        path = self.folder / self.study.scale / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"seed": 0, "scale": self.study.scale} | content))

    def judge(self, check, **parameters):
        return judge(Claim("id", "S", "W", check, parameters), self.study)

    def held(self, check, **parameters):
        return self.judge(check, **parameters).held
