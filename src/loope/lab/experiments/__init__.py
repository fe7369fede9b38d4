"""The tables of the paper: specs, presets, runs and results."""
