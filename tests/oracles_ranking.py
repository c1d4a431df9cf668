"""The measures of Sec. 4.1 as plain loops: rank, try every order of the ties, average or take an extreme."""

import itertools
import math


def distance(code, other):
    return sum(int(a) != int(b) for a, b in zip(code, other, strict=True))


def ranked_by_index(query, database, relevant):
    """Return the relevance of the items, nearest first, the lower index first among equals."""
    order = sorted(range(len(database)), key=lambda j: (distance(query, database[j]), j))
    return [bool(relevant[j]) for j in order]


def all_rankings(query, database, relevant):
    """Yield the relevance list of every order of the ties.

    Two orders that put relevant items at the same places score alike, and every choice of places in a level
    comes from equally many orders: so choices of places stand for orders (`every_order` is the longer way).
    """
    levels = []
    for d in range(len(query) + 1):
        flags = [bool(relevant[j]) for j in range(len(database)) if distance(query, database[j]) == d]
        places = itertools.combinations(range(len(flags)), sum(flags))
        levels.append([[j in chosen for j in range(len(flags))] for chosen in places])
    for choice in itertools.product(*levels):
        yield list(itertools.chain(*choice))


def every_order(query, database, relevant):
    """Yield the relevance list of every permutation of the database that sorts the distances."""
    distances = [distance(query, code) for code in database]
    for order in itertools.permutations(range(len(database))):
        if all(distances[a] <= distances[b] for a, b in itertools.pairwise(order)):
            yield [bool(relevant[j]) for j in order]


def average_precision(ranking, top=None, divisor="retrieved"):
    n_relevant = sum(ranking)
    if n_relevant == 0:
        return math.nan
    top = len(ranking) if top is None else min(top, len(ranking))
    hits, total = 0, 0.0
    for rank, flag in enumerate(ranking[:top], start=1):
        if flag:
            hits += 1
            total += hits / rank
    count = hits if divisor == "retrieved" else min(top, n_relevant)
    return total / count if count else 0.0


def dcg(ranking, top=None):
    top = len(ranking) if top is None else min(top, len(ranking))
    return sum(1 / math.log2(rank + 1) for rank, flag in enumerate(ranking[:top], start=1) if flag)


def ndcg(ranking, top=None):
    ideal = dcg(sorted(ranking, reverse=True), top)
    return dcg(ranking, top) / ideal if ideal else math.nan


def precision_at(ranking, top):
    top = min(top, len(ranking))
    return sum(ranking[:top]) / top


def precision_within(query, database, relevant, radius):
    near = [bool(relevant[j]) for j in range(len(database)) if distance(query, database[j]) <= radius]
    return sum(near) / len(near) if near else 0.0


def over_ties(measure, rankings, ties):
    values = [measure(ranking) for ranking in rankings]
    if ties == "expected":
        return sum(values) / len(values)
    return max(values) if ties == "best" else min(values)


def distance_distributions(queries, database, relevant):
    means = []
    for wanted in (True, False):
        histograms = []
        for query, flags in zip(queries, relevant, strict=True):
            distances = [distance(query, c) for c, f in zip(database, flags, strict=True) if bool(f) == wanted]
            if distances:
                levels = range(len(query) + 1)
                histograms.append([distances.count(d) / len(distances) for d in levels])
        means.append([sum(column) / len(histograms) for column in zip(*histograms, strict=True)])
    return means
