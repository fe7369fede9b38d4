"""What every part of loope stands on: errors, the registry, the grid, ranks."""
