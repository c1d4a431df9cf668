"""``python -m mihash`` is the command ``mihash``."""

from .cli import main

if __name__ == "__main__":
    main()
