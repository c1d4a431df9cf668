"""Vectors and codes in and out of files: readers, ingest, encoding and export."""
