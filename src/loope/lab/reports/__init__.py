"""Figures, tables and HTML pages of results."""
