"""Large slabs of time for what evolves in two or three axes of space."""
