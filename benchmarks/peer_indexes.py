"""The vector indexes that `peers` compares, each behind the same few calls and imported where it is made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]

_N_PROBE = 16


class Peer(Protocol):
    """An index of vectors numbered from 0; each number has the field ``part`` of 0 to 9, which is number % 10."""

    bytes_per_row: float

    def candidates(self, Q: Vectors, n: int) -> Ids:
        """Return the n best by what is kept in memory, without looking up vectors."""
        ...

    def search(self, q: Vectors, part: int | None = None) -> Ids:
        """Return the ten nearest to one query as a user would ask for them, of one part or of all."""
        ...

    def upsert(self, ids: Ids, X: Vectors) -> bool:
        """Replace vectors, and return whether this index can."""
        ...

    def delete(self, ids: Ids) -> None:
        """Remove items."""
        ...


class Mihash:
    """An index of mihash, with its defaults or with another learner."""

    def __init__(self, X: Vectors, folder: Path, **options: Any) -> None:
        import mihash

        self.index = mihash.open(folder / "index", **options)
        for start in range(0, len(X), 10_000):
            part = X[start : start + 10_000]
            self.index.add(part, metadata=[{"part": (start + i) % 10} for i in range(len(part))])
        self.index.wait()
        edition: Any = self.index._table.edition
        self.bytes_per_row = -(-edition.mapping.n_bits // 8) + edition.factors_.shape[1]

    def candidates(self, Q: Vectors, n: int) -> Ids:
        """Return the n best by codes, margins and factors."""
        found: Ids = self.index.search(Q, n, rescore=0).keys
        return found

    def search(self, q: Vectors, part: int | None = None) -> Ids:
        """Return the ten nearest."""
        found: Ids = self.index.search(q, where=None if part is None else {"part": part}).keys
        return found

    def upsert(self, ids: Ids, X: Vectors) -> bool:
        """Replace vectors, and wait until they are stored and learned."""
        self.index.upsert(X, ids, metadata=[{"part": int(number) % 10} for number in ids])
        self.index.wait()
        return True

    def delete(self, ids: Ids) -> None:
        """Remove items."""
        self.index.delete(ids)


class Faiss:
    """A FAISS index by its factory string; vectors are looked up in the array where it keeps none itself."""

    def __init__(self, X: Vectors, _folder: Path, factory: str, bytes_per_row: float, refined: int = 100) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self._X, self._refined, self.bytes_per_row = X, refined, bytes_per_row
        self._index = faiss.index_factory(X.shape[1], factory)
        self._index.train(X[np.random.default_rng(0).permutation(len(X))[:50_000]])
        self._index.add(X)
        if "IVF" in factory:
            faiss.extract_index_ivf(self._index).nprobe = _N_PROBE
        self._dead = np.zeros(len(X), dtype=np.bool_)

    def candidates(self, Q: Vectors, n: int) -> Ids:
        """Return the n best by its codes."""
        found: Ids = self._index.search(Q, n)[1]
        return found

    def search(self, q: Vectors, part: int | None = None) -> Ids:
        """Return the ten nearest of the refined candidates."""
        import faiss

        keep = ~self._dead
        if part is not None:
            keep &= np.arange(len(keep)) % 10 == part
        if not keep.all():
            selector = faiss.IDSelectorBitmap(np.packbits(keep, bitorder="little"))
            try:
                if hasattr(self._index, "nprobe"):
                    parameters = faiss.SearchParametersIVF(sel=selector, nprobe=_N_PROBE)
                else:
                    parameters = faiss.SearchParameters(sel=selector)
                ids = self._index.search(q[None], self._refined, params=parameters)[1][0]
            except (RuntimeError, TypeError):  # not every index takes a selector
                ids = self._index.search(q[None], 10 * self._refined)[1][0]
        else:
            ids = self._index.search(q[None], self._refined)[1][0]
        ids = ids[ids >= 0]
        ids = ids[keep[ids]]
        order = np.argsort(((self._X[ids] - q) ** 2).sum(axis=1))[:10]
        nearest: Ids = ids[order]
        return nearest

    def upsert(self, _ids: Ids, _X: Vectors) -> bool:
        """Return False: these indexes cannot replace a vector."""
        return False

    def delete(self, ids: Ids) -> None:
        """Mark items as removed; most compressed FAISS indexes cannot remove."""
        self._dead[ids] = True


class Usearch:
    """A graph (HNSW) over the vectors in memory."""

    def __init__(self, X: Vectors, _folder: Path) -> None:
        from usearch.index import Index

        self._index = Index(ndim=X.shape[1], metric="l2sq", dtype="f32")
        self._index.add(np.arange(len(X)), X, threads=1)
        self.bytes_per_row = self._index.memory_usage / len(X)

    def candidates(self, Q: Vectors, n: int) -> Ids:
        """Return the n nearest that the graph finds."""
        found: Ids = np.asarray(self._index.search(Q, n, threads=1).keys).astype(np.int64)
        return found

    def search(self, q: Vectors, part: int | None = None) -> Ids:
        """Return the ten nearest; for a part, those among the first 200."""
        found: Ids = np.asarray(self._index.search(q, 10 if part is None else 200).keys).astype(np.int64)
        return found if part is None else found[found % 10 == part][:10]

    def upsert(self, ids: Ids, X: Vectors) -> bool:
        """Replace vectors: remove, then add."""
        self._index.remove(ids)
        self._index.add(ids, X, threads=1)
        return True

    def delete(self, ids: Ids) -> None:
        """Remove items."""
        self._index.remove(ids)


class LanceDB:
    """A LanceDB table on the disk with an IVF_PQ or IVF_RQ index, and a refine factor of 10."""

    def __init__(self, X: Vectors, folder: Path, kind: Literal["IVF_PQ", "IVF_RQ"]) -> None:
        import lancedb

        d = X.shape[1]
        self._table = lancedb.connect(str(folder / "lance")).create_table("rows", self._rows(np.arange(len(X)), X))
        n_parts = max(int(len(X) ** 0.5) // 2, 1)
        if kind == "IVF_PQ":
            n_sub = next(m for m in (16, 8, 4, 2, 1) if d % m == 0)
            self._table.create_index(metric="l2", num_partitions=n_parts, num_sub_vectors=n_sub)
        else:
            self._table.create_index(metric="l2", num_partitions=n_parts, index_type=kind, num_bits=1)
        self.bytes_per_row = 8 + (n_sub if kind == "IVF_PQ" else d / 8 + 8)

    @staticmethod
    def _rows(ids: Ids, X: Vectors) -> Any:
        import pyarrow as pa

        vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
        return pa.table({"id": ids, "part": ids % 10, "vector": vectors})

    def candidates(self, Q: Vectors, n: int) -> Ids:
        """Return the n best by its codes."""
        return np.array([self._ids(self._table.search(q).limit(n).nprobes(20)) for q in Q])

    def search(self, q: Vectors, part: int | None = None) -> Ids:
        """Return the ten nearest, with a filter before the search."""
        asked = self._table.search(q).limit(10).nprobes(20).refine_factor(10)
        return self._ids(asked if part is None else asked.where(f"part = {part}", prefilter=True))

    def _ids(self, asked: Any) -> Ids:
        found: Ids = asked.select(["id", "_distance"]).to_arrow()["id"].to_numpy()
        return found

    def upsert(self, ids: Ids, X: Vectors) -> bool:
        """Replace rows by their numbers."""
        merge = self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(self._rows(ids, X))
        return True

    def delete(self, ids: Ids) -> None:
        """Remove items."""
        self._table.delete(f"id IN ({', '.join(map(str, ids.tolist()))})")


def peers(d: int) -> dict[str, Callable[[Vectors, Path], Peer]]:
    """Return how each index is made, by name; those of about 16 to 18 bytes for each row first."""
    n_pca = min(64, d)
    return {
        "mihash, MomentHash, 128 bits": lambda X, f: Mihash(X, f, learner="momenthash", n_bits=128),
        "FAISS PCA-PQ, 16 bytes": lambda X, f: Faiss(X, f, f"PCAR{n_pca},PQ16", 16),
        "FAISS LSH, 128 bits (flat binary)": lambda X, f: Faiss(X, f, "ITQ128,LSH" if d >= 128 else "LSH", 16),
        "LanceDB IVF_PQ, 16 bytes": lambda X, f: LanceDB(X, f, "IVF_PQ"),
        "mihash, default": Mihash,
        "LanceDB IVF_RQ": lambda X, f: LanceDB(X, f, "IVF_RQ"),
        "FAISS RaBitQ": lambda X, f: Faiss(X, f, "RaBitQ", d / 8 + 8),
        "FAISS IVF, vectors in memory": lambda X, f: Faiss(X, f, "IVF256,Flat", 4 * d + 8, 10),
        "usearch HNSW, vectors in memory": Usearch,
    }
