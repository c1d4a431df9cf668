"""Exact Hamming search over packed codes."""

from .scan import nearest, within

__all__ = ["nearest", "within"]
