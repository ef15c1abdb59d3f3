"""Pictures and films of a solution, chosen by the file's ending like every other format; `report` draws them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..report.animation import animate
from ..report.figures import save_figure
from ..views import View

FIGURES = {".png": "a picture", ".svg": "a picture of lines and words", ".pdf": "a picture for print"}
FILMS = {".gif": "a film", ".mp4": "a film, with ffmpeg"}
PICTURES = FIGURES | FILMS


def write_picture(view: View, path: Path, units: Mapping[str, str] | None, **options: Any) -> Path:
    """A figure with the options of `solution.plot`, or a film with those of `solution.animate`."""
    if units:
        raise InputError(f"units: a picture has no place for them: leave them out, or write {path.with_suffix('.nc').name!r}")
    return (save_figure if path.suffix.lower() in FIGURES else animate)(view, path, **options)
