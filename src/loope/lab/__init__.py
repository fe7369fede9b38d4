"""Data sets, training, executors, experiments and reports. The library never imports this package."""
