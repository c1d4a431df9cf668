"""Results that were never run, for tests of what reads them."""

import json

from mihash.experiments.claims import Claim, judge
from mihash.experiments.definition import Definition, load_definition, load_parameters
from mihash.experiments.outcomes import Study


def define(draws, datasets=("cifar10",), methods=("okh",), **rest):
    return Definition("tiny", "A title", "online", draws, datasets, methods, **{"trials": 2} | rest)


def write(folder, definition, values):
    """Write a result for each run; `values`, or what it returns for a run, replaces what is usual."""
    for run in definition.runs(load_parameters()):
        path = folder / "smoke" / run.path
        path.parent.mkdir(parents=True, exist_ok=True)
        result = {
            "updates": 1,
            "area": 0.5,
            "final": 0.5,
            "precisions": [0.5] * 8,
            "examples": [500, 1000],
            "data": f"{run.dataset} (digits)",
            "protocol": {
                "rows": 1100,
                "interval": round(100 * run.every),
                "reservoir_size": round(50 * run.share),
            },
            "times": {"learning_s": 2.0, "deciding_s": 0.5},
        }
        path.write_text(json.dumps(result | (values(run) if callable(values) else values)))


class Tree:
    """Definitions and results of their own, in a folder."""

    def __init__(self, folder, scale="smoke"):
        self.folder, self.study = folder, Study(folder, scale)

    def define(self, name, values, **keys):
        keys = {"title": "T", "kind": "online", "draws": "curves", "datasets": ["cifar10"], "trials": 2} | keys
        text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
        path = self.folder / f"{name}.toml"
        path.write_text(text.replace("Infinity", "inf").replace("True", "true"))
        write(self.folder, load_definition(path), values)
        return str(path)

    def file(self, name, content):
        path = self.folder / "smoke" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))

    def judge(self, check, **parameters):
        return judge(Claim("id", "S", "W", check, parameters), self.study)

    def held(self, check, **parameters):
        return self.judge(check, **parameters).held
