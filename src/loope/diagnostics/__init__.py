"""What a whole model knows of positions; every function takes a model and batches of images."""
