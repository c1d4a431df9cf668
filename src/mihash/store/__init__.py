"""What is stored and asked: changes, questions, and hash tables in memory, in SQLite and on Ray (Sec. 3.1)."""

from .hash_table import HashTable
from .memory import MemoryTable

__all__ = ["HashTable", "MemoryTable"]
