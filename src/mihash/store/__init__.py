"""The hash table T(S, Phi^s): the codes of all stored items, behind one protocol (Sec. 3.1)."""

from .hash_table import HashTable
from .memory import MemoryTable

__all__ = ["HashTable", "MemoryTable"]
