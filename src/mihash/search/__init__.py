"""Exact Hamming search over packed codes."""

from .scan import nearest

__all__ = ["nearest"]
