"""Train and evaluate on one process or many. A killed run resumes to the same result."""
