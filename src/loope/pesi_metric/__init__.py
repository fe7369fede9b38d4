"""PESI: how well an encoding keeps the geometry of the grid."""
