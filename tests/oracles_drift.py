"""The price of a rehash and the drift watch as plain loops (docs/drift.md)."""

from math import log2, sqrt


def information(code, label, codes, labels):
    """I(D; C) of one item with a sample, from its definition; codes are tuples of bits."""
    n, counts = len(codes), {}
    for other, other_label in zip(codes, labels, strict=True):
        key = sum(a != b for a, b in zip(code, other, strict=True)), other_label == label
        counts[key] = counts.get(key, 0) + 1
    total = 0.0
    for (distance, near), count in counts.items():
        p_distance = sum(c for (d, _), c in counts.items() if d == distance) / n
        p_near = sum(c for (_, side), c in counts.items() if side == near) / n
        total += count / n * log2(count / n / (p_distance * p_near))
    return total


def missed(blocks, price, by_chance=0.0):
    """Return S after each block, and whether it asks for a table; a block is two lists of information."""
    total, m, found = 0.0, None, []
    for current, snapshot in blocks:
        mean = sum(current) / len(current)
        worth = max(mean - by_chance, 0.1 * mean)
        m = worth if m is None else 0.9 * m + 0.1 * worth
        for now, before in zip(current, snapshot, strict=True):
            total += (now - before) / m
        total = max(0.0, total)
        found.append((total, total > price))
        if total > price:
            total = 0.0
    return found


def z_score(arriving, own):
    """Return the difference of two means in standard errors."""
    means, errors = [], 0.0
    for values in (arriving, own):
        mean = sum(values) / len(values)
        means.append(mean)
        errors += sum((value - mean) ** 2 for value in values) / len(values) / len(values)
    return (means[0] - means[1]) / sqrt(errors)


def moved(new, old, cut=2.5):
    """Return the mean over bits of the squared t of u and of (u - mean of u)^2, minus 2, over what chance adds."""
    total, columns, n_bits = 0.0, [], len(new[0])
    for bit in range(n_bits):
        ours, theirs = [row[bit] for row in new], sorted(row[bit] for row in old)
        low, centre, high = (theirs[int(share * len(theirs))] for share in (0.16, 0.5, 0.84))

        def cut_off(value, centre=centre, scale=(high - low) / 2):
            return min(cut, max(-cut, (value - centre) / scale))

        u = [cut_off(row[bit]) for row in old]
        mean = sum(u) / len(u)
        squares = [(value - mean) ** 2 for value in u]
        others = [cut_off(value) for value in ours]
        for known, other in ((u, others), (squares, [(value - mean) ** 2 for value in others])):
            (m, v, k), (w, _, n) = _moments(known), _moments(other)
            total += (w - m) ** 2 / (v * (1 / n + 1 / k))
            columns.append([(value - m) / sqrt(v) for value in known])
    n, k = len(old), len(columns)
    squares = sum((sum(a * b for a, b in zip(x, y, strict=True)) / n) ** 2 for x in columns for y in columns)
    by_chance = 2 * sqrt(2 * max(squares - k * k / n, k)) / k
    return (total / n_bits - 2) / max(1, by_chance / 0.5)


def _moments(values):
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values) / len(values), len(values)


def alarms(scores, n, threshold, slack, quiet, labelled=True, slow=False):
    """Return the numbers of the blocks of n examples at which the CUSUM is above the threshold."""
    total, usual, waited, found = 0.0, 0.0, 0, []
    for number, z in enumerate(scores):
        waited += n
        own_slack = slack if labelled else slack * sqrt(1 - usual)
        total = max(0.0, total - (z - usual) - own_slack) if waited >= quiet else 0.0
        if waited < quiet and not labelled:
            usual = min(0.0, usual + 0.3 * (z - usual))
        elif waited < quiet and not found and not slow:
            usual = min(0.0, usual + 0.3 * (max(z, usual - 3) - usual))
        else:
            usual = min(0.0, usual + 0.05 * (max(z, usual - 3) - usual))
        if total > threshold:
            found.append(number)
            total, waited = 0.0, 0
    return found
