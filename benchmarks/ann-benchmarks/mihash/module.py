"""mihash in ann-benchmarks: exact search in Hamming data, by a scan or by multi-index hashing."""

import numpy as np

import mihash

from ..base.module import BaseANN


class MIHash(BaseANN):
    """Codes in memory; ``method`` is "scan", "multi-index", or "auto" for whichever is expected to be faster."""

    def __init__(self, metric: str, method: str) -> None:
        if metric != "hamming":
            raise NotImplementedError(f"mihash searches Hamming data here; got {metric}.")
        self.method = method
        self.name = f"mihash({method})"

    def fit(self, X: np.ndarray) -> None:
        """Pack the bits, build what the method needs, and compile its kernels."""
        self._table = mihash.MemoryTable.from_codes(mihash.pack(X), X.shape[1])
        self.query(X[0], 10)

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        """Return the places of the n nearest codes."""
        return self._table.search_codes(mihash.pack(q[None]), n, method=self.method, n_threads=1)[0][0]

    def batch_query(self, X: np.ndarray, n: int) -> None:
        """Search for many codes at once, with all threads."""
        self._found = self._table.search_codes(mihash.pack(X), n, method=self.method)[0]

    def get_batch_results(self) -> np.ndarray:
        """Return what `batch_query` found."""
        return self._found
