"""A till."""
