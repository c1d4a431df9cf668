"""Speed as ratios: each operation is measured against a peer or a lower bound, in one process and in turns.

``python -m benchmarks`` runs all; ``python -m benchmarks step quality`` runs some.
"""
