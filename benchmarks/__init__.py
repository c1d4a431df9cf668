"""Speed as ratios: each thing measured beside a peer or a floor, in one process, in interleaved rounds.

``python -m benchmarks`` runs all; ``python -m benchmarks step quality`` runs some.
"""
