"""What is stored and asked: changes, questions, and hash tables in memory, in SQLite and on Ray (Sec. 3.1)."""

from .memory import MemoryTable
from .table import HashTable

__all__ = ["HashTable", "MemoryTable"]
