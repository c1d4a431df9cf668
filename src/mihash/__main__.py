"""``python -m mihash`` is the command ``mihash``."""

from .cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
