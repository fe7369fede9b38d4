"""Data sets: made here, or read from disk."""
