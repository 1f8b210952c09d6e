"""`python -m heldout` is the command line."""

from heldout.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
