"""Images on disk: data sets by name, splits, augmentation, and batches for training."""
