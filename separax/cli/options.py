"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

Problem = Annotated[
    str,
    Argument(
        help="A problem of the catalogue (`separax list`), or a file of yours: FILE.py, or"
        " FILE.py:NAME where it has several.",
        show_default=False,
    ),
]
Recipe = Annotated[
    str | None,
    Option(
        help="For problems of the catalogue: best, or paper to do as the paper does.",
        show_default="best",
    ),
]
Network = Annotated[
    str | None,
    Option(help="spinn, spinn-mod, pinn or pinn-mod.", show_default="the recipe's"),
]
Points = Annotated[int | None, Option(help="Points per axis.", show_default="the recipe's")]
Precision = Annotated[
    str | None, Option(help="float32, float64 or tf32.", show_default="the recipe's")
]
Seed = Annotated[int, Option(help="The first seed: all random choices follow from it.")]
Field = Annotated[str | None, Option(help="Which one, where there are several fields.")]
AsJson = Annotated[
    bool, Option("--json", help="Print one JSON object on standard output, and no table.")
]
Run = Annotated[Path, Argument(help="The folder of a run.", show_default=False)]
