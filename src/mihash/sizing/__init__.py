"""What an index will cost on this machine: measured rates, and a model of memory, disk and time."""
