"""Playing runbooks: the truth as plain loops, an index under two rules, and peers in processes of their own."""

import sys

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput, NotReady, UnknownName
from mihash.runbooks.contestants import CONTESTANTS, Contestant, Index, contestant
from mihash.runbooks.playback import play, play_with, true_nearest
from mihash.runbooks.runbook import Runbook, Step
from mihash.runbooks.workload import Workload, made

rng = np.random.default_rng(0)
X = rng.standard_normal((660, 8)).astype(np.float32)
SMALL = made("expiration", X[:330], n_steps=10, n_queries=30)
REPLACED = Workload(
    Runbook.of_steps(
        "x",
        [
            Step("insert", range(300), range(300)),
            Step("delete", range(50)),
            Step("search"),
            Step("replace", range(60, 160), range(300, 400)),
            Step("search"),
        ],
    ),
    X[:400],
    X[640:],
)


class Exact(Contestant):
    """Plain loops over a dictionary."""

    def __init__(self):
        super().__init__()
        self.stored = {}

    def insert(self, tags, X):
        assert not self.stored.keys() & set(tags.tolist())
        self.stored |= dict(zip(tags.tolist(), X, strict=True))

    def delete(self, tags):
        for tag in tags.tolist():
            del self.stored[tag]

    def search(self, queries, k):
        found = np.full((len(queries), k), -1, dtype=np.int64)
        for place, query in enumerate(queries):
            near = sorted(self.stored, key=lambda tag: (((self.stored[tag] - query) ** 2).sum(), tag))[:k]
            found[place, : len(near)] = near
        return found


@pytest.mark.parametrize("workload", [SMALL, REPLACED])
def test_plain_loops_find_everything(workload):
    played = play_with(Exact(), "exact", workload, np.stack(true_nearest(workload)))
    assert played.recalls == [1.0] * workload.runbook.n_searches
    assert (played.recall, played.rehashes, played.encoded, played.hindsight) == (1.0, 0, 0, None)
    assert played.code_recall is None


def test_an_index_plays_under_a_rule():
    workload = made("sliding-window", X, n_steps=6, n_queries=60)
    true = np.stack(true_nearest(workload))
    with Index(mihash.PriceUpdate(5, 50)) as priced, Index(mihash.TriggerUpdate(float("inf"))) as still:
        ours, without = (play_with(each, "x", workload, true) for each in (priced, still))
    assert len(ours.recalls) == len(ours.code_recalls) == 6
    assert ours.recall > 0.8
    assert ours.rehashes > without.rehashes
    assert ours.encoded > without.encoded > 0
    assert ours.hindsight > 0.999
    assert ours.cpu_s > 0
    with Index(mihash.PriceUpdate()) as index:
        assert play_with(index, "x", REPLACED, np.stack(true_nearest(REPLACED))).recall > 0.8


@pytest.mark.needs("faiss")
def test_peers_play_in_processes_of_their_own():
    (played,) = play(REPLACED, ["FAISS flat"])
    assert (played.name, played.recall, played.skipped) == ("FAISS flat", 1.0, None)
    with contestant("FAISS IVF") as peer:
        assert play_with(peer, "FAISS IVF", REPLACED, np.stack(true_nearest(REPLACED))).recall > 0.5


@pytest.mark.needs("lancedb")
def test_a_table_of_lancedb_plays():
    with contestant("LanceDB") as peer:
        played = play_with(
            peer, "LanceDB", REPLACED._replace(queries=X[650:]), np.stack(true_nearest(REPLACED))[:, 10:]
        )
    assert played.recall == 1.0


def test_one_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(NotReady, match=r"pyarrow is not installed: pip install 'mihash\[lance\]'"):
        contestant("LanceDB")


def test_refused():
    with pytest.raises(UnknownName, match="known: PriceUpdate"):
        contestant("nobody")
    with pytest.raises(InvalidInput, match="needs 400 rows; the data has 10"):
        list(play(REPLACED._replace(X=X[:10]), []))
    with pytest.raises(InvalidInput, match="Queries have 3 features"):
        list(play(REPLACED._replace(queries=X[:, :3]), []))
    with pytest.raises(InvalidInput, match="has no `search` step"):
        list(play(REPLACED._replace(runbook=Runbook("x", 1, ())), []))
    assert len(CONTESTANTS) == 8
