"""How positional encodings are measured: PESI and what goes beyond it."""
