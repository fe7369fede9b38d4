"""Scores of encodings and of the models that use them."""
