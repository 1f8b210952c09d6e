"""VERSE, a verified self-evolving optimizer for agent harnesses (arXiv 2610.02616), in simulation (its section 7)."""

__all__: list[str] = []
