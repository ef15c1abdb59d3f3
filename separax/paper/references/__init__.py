"""True solutions for equations that have no formula: classical solvers and series."""
