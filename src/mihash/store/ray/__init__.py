"""The hash table on Ray: shards on many nodes, each a SQLite table, that follow one log (docs/scale.md)."""

from .ray_table import RayTable as RayTable
