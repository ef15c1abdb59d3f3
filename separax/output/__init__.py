"""Pages, figures, films, and files for other tools."""

from .animation import FILMS, animate
from .comparison import write_comparison
from .cuts import Cut, Picture, part, pictures
from .export import PICTURES, export
from .figures import COLOURS, against_rank, new_figure, panels, plot, png
from .notebook import of_box, of_problem, of_solution
from .page import write_report
from .writers import PER_AXIS, dataset, grid, read_points

__all__ = [
    "COLOURS", "FILMS", "PER_AXIS", "PICTURES", "Cut", "Picture", "against_rank", "animate",
    "dataset", "export", "grid", "new_figure", "of_box", "of_problem", "of_solution", "panels",
    "part", "pictures", "plot", "png", "read_points", "write_comparison", "write_report",
]  # fmt: skip
