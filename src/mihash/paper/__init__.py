"""The paper's experiments: definitions, runs, results, and what is made of them (Sec. 4, App. B-D)."""

from .passes import Branch, Pass, learn_once

__all__ = ["Branch", "Pass", "learn_once"]
