"""PESI: how well an encoding preserves the geometry of the grid."""
