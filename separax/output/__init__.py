"""Pages, figures, films, and files for other tools."""

from .animation import FILMS, animate
from .comparison import write_comparison
from .cuts import Cut, Picture, part, pictures
from .figures import COLOURS, against_rank, new_figure, panels, plot, png
from .files.export import PICTURES, export
from .files.lattices import PER_AXIS, grid
from .files.writers import dataset, read_points
from .notebook import of_box, of_problem, of_solution
from .page import write_report

__all__ = [
    "COLOURS", "FILMS", "PER_AXIS", "PICTURES", "Cut", "Picture", "against_rank", "animate",
    "dataset", "export", "grid", "new_figure", "of_box", "of_problem", "of_solution", "panels",
    "part", "pictures", "plot", "png", "read_points", "write_comparison", "write_report",
]  # fmt: skip
