"""Every table of the paper as one command: specs, presets, runs and what came out."""
