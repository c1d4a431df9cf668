"""The store in one SQLite file: vectors, keys, metadata, versions and codes."""
