"""The embedded worlds, each a small package of its own."""

__all__ = ()
