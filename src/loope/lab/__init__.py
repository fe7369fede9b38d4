"""The laboratory: data sets, training, executors, experiments and reports. The library never imports it."""
