"""Image classification: data sets by name, splits, augmentation and training batches."""
