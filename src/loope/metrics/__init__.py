"""How encodings and models are measured: PESI, what goes beyond it, and the Three-Cell score."""
