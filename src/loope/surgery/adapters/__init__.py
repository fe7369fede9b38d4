"""How each kind of model is attached to."""
