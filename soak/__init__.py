"""Long runs that try to break the durable index: kills, power losses, faults of the disk, searches amid rehashes.

``python -m soak crash`` kills a process that works on an index and compares what is left with a plain dictionary;
``python -m soak power`` does so with what a power loss may leave of its writes, ``python -m soak faults`` with
calls that fail, ``python -m soak disk`` with a disk that is full for a while;
``python -m soak flips`` changes single bits of its file and asks everything;
``python -m soak concurrency`` checks every answer of threads that search while versions change;
``python -m soak latency`` times a paced client; ``python -m soak service`` loads a service over HTTP;
``python -m soak hostile`` sends it requests that are made to hold it up; ``python -m soak readers`` kills workers
that read, and the service that writes; ``python -m soak cluster`` kills the shards of an index on Ray;
``python -m soak migration`` kills a process that changes to another embedding model;
``python -m soak window`` kills one that streams rows through an index that keeps the newest. Each takes
``--help``. A failure has exit status 1. What is promised is in docs/reliability.md.
"""
