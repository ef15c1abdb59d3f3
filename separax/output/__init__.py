"""Pages, figures, films, and files for other tools."""

from .animation import FILM, animate
from .cuts import Cut, Picture, part, pictures
from .export import PICTURES, export
from .figures import (
    COLOURS,
    FIGURES,
    against_rank,
    known_ending,
    new_figure,
    panels,
    plot,
    png,
    save_figure,
)
from .html import of_box, of_problem, of_solution
from .page import write_report
from .writers import PER_AXIS, dataset, grid, read_points

__all__ = [
    "COLOURS", "FIGURES", "FILM", "PER_AXIS", "PICTURES", "Cut", "Picture", "against_rank",
    "animate", "dataset", "export", "grid", "known_ending", "new_figure", "of_box", "of_problem",
    "of_solution", "panels", "part", "pictures", "plot", "png", "read_points", "save_figure",
    "write_report",
]  # fmt: skip
