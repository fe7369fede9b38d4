"""One file for each table of the paper: what it reproduces, what was published, what it costs."""
