"""Adapters: one per family of models."""
