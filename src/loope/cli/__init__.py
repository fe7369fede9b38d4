"""The `loope` command line."""
