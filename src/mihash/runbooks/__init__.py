"""Streaming runbooks: inserts, deletes, replacements and searches in order, for this index and for peers."""
