"""Pictures and tables of what was computed."""
