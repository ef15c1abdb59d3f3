"""`report.html`: one self-contained page with a run's equation, error, curves, slices and factors, and a viewer of its solution."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ..equations import equation
from ..networks import SPECTRAL
from ..recipe import Recipe
from ..solution import Ensemble, Solution
from .charts import NARROW, Series, chart, colour_bar, legend, number, panel
from .cuts import (
    Kept,
    Picture,
    default_held,
    has_reference,
    largest,
    limits,
    outputs,
    pictures,
    shown_axes,
)
from .figures import DIFFERENCES, VALUES, curves, lines, panels, png
from .mathml import mathml
from .viewer.data import largest_products, payload

SCRIPTS = tuple(f"viewer/viewer{part}.js" for part in ("_formula", "_field", "_solid", "_draw", ""))
COLOURS = (VALUES, "cividis", DIFFERENCES)  # of the viewer
STOPS = 33  # of a colour map: in between, straight lines do
POINTS = 128  # of a slice, per axis
MOST_FIELDS = 3  # whose slices are shown
KEPT = "reference.npz"  # the reference on the slices, for when its function is gone
# no page asks the network for anything, whatever the text in it
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
# of a record, what the page shows elsewhere, and what only files are checked with
HIDDEN = (
    "versions",
    "advice",
    "relative_l2_each",
    "relative_l2_windows",
    "equation",
    "files",
    "run",
    "sha256",
)
HIDDEN_LAYERS = ("width", "activation", "steepness")  # say nothing where there are none


def asset(name: str) -> str:
    return resources.files("separax.output").joinpath(name).read_text(encoding="utf-8")


def document(title: str, body: str, *styles: str) -> str:
    """A whole page. `title` is plain text, `body` is HTML."""
    style = "".join(asset(name) for name in ("page.css", *styles))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><title>{escape(title)}</title>'
        f'<link rel="icon" href="data:,"><style>{style}</style></head>\n<body>\n{body}\n</body></html>\n'
    )


def write_report(found: Solution | Ensemble, folder: Path, result: Mapping[str, Any]) -> Path:
    """Writes the page of a run and its figures; returns the page."""
    from ..runs import npz, write

    solution = found[0] if isinstance(found, Ensemble) else found
    kept = read_kept(folder / KEPT)
    pictures = slices_of(solution, kept)
    write(folder / "solution.png", png(_figure(pictures[0])))
    write(folder / "training.png", png(curves(solution)))
    if known := {p.key: p.reference for each in pictures for p in each if p.reference is not None}:
        about = {"kind": "reference", "run": result.get("run"), "pictures": list(known)}
        write(
            folder / KEPT,
            npz(
                about, {str(i): values for i, values in enumerate(known.values())}, compressed=True
            ),
        )
    page = folder / "report.html"
    write(page, render(solution, result, pictures).encode())
    return page


def _figure(pictures: list[Picture]) -> Any:
    return lines(pictures) if len(pictures[0].axes) == 1 else panels(pictures)


def read_kept(path: Path) -> dict[str, np.ndarray]:
    """The reference's pictures that an earlier page of the run left; nothing where they cannot be read."""
    from ..runs import Damaged, read_npz

    try:
        about, arrays = read_npz(path)
        return {name: arrays[str(i)] for i, name in enumerate(about["pictures"])}
    except (Damaged, KeyError):
        return {}


def slices_of(solution: Solution, kept: Kept) -> list[list[Picture]]:
    """The pictures of the fields that are shown: those whose truth is known first."""
    box = solution.problem.box
    cut = default_held(box, shown_axes(box))
    names = list(outputs(solution))
    told = {key.split("|")[0] for key in kept}
    names.sort(key=lambda name: not (has_reference(solution, name) or name in told))
    points = POINTS if len(cut.shown) == 2 else 512
    return [pictures(solution, name, cut, points, kept=kept) for name in names[:MOST_FIELDS]]


# --- parts of a page --------------------------------------------------------------------------------------------------


def typeset(of: Mapping[str, Any]) -> str:
    """An equation, as formulas where it has some, as the residual's text otherwise."""
    if of.get("formulas"):
        return f'<div class="equation">{"".join(mathml(str(f)) for f in of["formulas"])}</div>'
    return (
        f'<div class="equation"><pre><code>{escape(of["code"])}</code></pre></div>'
        if of.get("code")
        else ""
    )


def fact(label: str, value: str, good: bool = False) -> str:
    return f"<div{' class=good' if good else ''}><b>{escape(value)}</b><span>{escape(label)}</span></div>"


def facts(result: Mapping[str, Any]) -> str:
    found = []
    if result.get("relative_l2") is not None:
        seeds = result.get("seeds", 1)
        found.append(
            fact(
                "relative L2 error" + (f", mean of {seeds} seeds" if seeds > 1 else ""),
                f"{result['relative_l2']:.2e}",
                True,
            )
        )
    if result.get("loss") is not None:
        found.append(fact("loss", f"{result['loss']:.2e}"))
    if result.get("estimate") is not None:
        found.append(fact("estimated error", f"{result['estimate']:.1e}"))
    if result.get("train_seconds") is not None:
        steps, way = (
            result.get("steps", 0),
            "solving" if result.get("network") == SPECTRAL else "training",
        )
        found.append(
            fact(f"{way}, {steps:,} step{'s' * (steps != 1)}", seconds(result["train_seconds"]))
        )
    if each := result.get("ms_per_step"):
        found.append(fact("per step", f"{each:.3g} ms" if each < 1000 else f"{each / 1000:.3g} s"))
    for name, value in (result.get("unknowns") or {}).items():
        found.append(fact("found coefficient", f"{name} = {value:.5g}"))
    return f'<div class="facts">{"".join(found)}</div>'


def seconds(value: float) -> str:
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def recipe_facts(recipe: Recipe) -> dict[str, Any]:
    """A recipe, setting by setting."""
    network = recipe.network
    left_out = {"body"} if network.depth else {"body", *HIDDEN_LAYERS}  # the network's name says it
    names = [name for name in ("rank", *network.settings) if name not in left_out]
    architecture = {name: network.settings[name] for name in names if name in network.settings}
    optimisers = ", then ".join(repr(one) for one in recipe.optimisers)
    return {
        **architecture,
        "optimiser": optimisers,
        "sampler": repr(recipe.sampler),
        "emphasis of conditions": recipe.emphasis,
        "weights": ", ".join(f"{k}: {v:g}" for k, v in recipe.weights.items()) or "1",
    }


def settings(solution: Solution, result: Mapping[str, Any]) -> str:
    rows = {"box": repr(solution.problem.box), "fields": ", ".join(solution.problem.outputs)}
    rows |= {k: v for k, v in result.items() if k not in HIDDEN and v is not None}
    rows |= recipe_facts(solution.recipe)
    rows |= {f"version of {k}": v for k, v in (result.get("versions") or {}).items()}
    body = "".join(
        f"<tr><td>{escape(k.replace('_', ' '))}</td><td>{escape(_shown(v))}</td></tr>"
        for k, v in rows.items()
    )
    return f'<h2>Settings</h2><div class="wide"><table class="settings">{body}</table></div>'


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(
        value, tuple
    ):  # numbers by axis: ((None, 36),) is 36 for all, (("x", 24), ("y", 12)) one for each
        if all(isinstance(each, tuple) and len(each) == 2 for each in value):
            return (
                ", ".join(_shown(v) if k is None else f"{k}: {_shown(v)}" for k, v in value) or "–"
            )
        return ", ".join(map(_shown, value)) or "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_shown(v)}" for k, v in value.items())
    return str(value)


def training(solution: Solution) -> str:
    history = solution.history
    terms = (
        [Series(name, history.steps, values) for name, values in history.losses.items()]
        if len(history.losses) > 1
        else []
    )
    found = chart(
        [Series("loss", history.steps, history.total), *terms],
        "step",
        "loss",
        log=True,
        title="Loss and its terms",
    )
    errors = [Series("relative L2 error", history.error_steps, history.errors)]
    found += chart(
        errors,
        "step",
        "relative L2 error",
        log=True,
        title="Error of the best parameters so far",
        named=False,
    )
    return f'<h2>Training</h2><div class="charts">{found}</div>' if found else ""


def slice_section(pictures: Iterable[list[Picture]]) -> str:
    out = ["<h2>Slices</h2>"]
    for found in pictures:
        out.append(f"<h3>{escape(found[0].field)}</h3>")
        out.append(_lines(found) if len(found[0].axes) == 1 else _panels(found))
    return "".join(out)


def _lines(found: list[Picture]) -> str:
    ((axis, xs),) = found[0].axes.items()
    series = [Series("solution", xs, found[0].values)]
    if found[0].reference is not None:
        series.append(Series("reference", xs, found[0].reference))
    return f'<div class="charts">{chart(series, axis, found[0].field)}</div>'


def _panels(found: list[Picture]) -> str:
    low, high = limits([v for p in found for v in (p.values, p.reference) if v is not None])
    differences = [p.difference for p in found if p.difference is not None]
    most = largest(differences)
    scales = colour_bar(low, high, VALUES, "solution and reference" if differences else "solution")
    if differences:
        scales += colour_bar(-most, most, DIFFERENCES, "difference")
    panels = []
    for picture in found:
        where = f" at {picture.where}" if picture.where else ""
        panels.append(panel(picture, picture.values, low, high, VALUES, "solution" + where))
        if picture.reference is not None and picture.difference is not None:
            panels.append(panel(picture, picture.reference, low, high, VALUES, "reference" + where))
            panels.append(
                panel(picture, picture.difference, -most, most, DIFFERENCES, "difference" + where)
            )
    return f'<div class="scales">{scales}</div><div class="{"slices beside" if differences else "slices"}">{"".join(panels)}</div>'


def factor_section(solution: Solution, field: str) -> str:
    """The largest products of a field, factor by factor."""
    network = solution.model.network
    if not network.is_separable:
        return ""
    fields = solution.problem.fields
    field = field if field in fields else fields[0]
    curves, sizes = largest_products(solution, field)
    out = []
    for axis, (x, values) in curves.items():
        series = [Series(f"product {j + 1}", x, values[:, j]) for j in range(values.shape[1])]
        out.append(
            chart(series, axis, "factor", title=f"Factors along {axis}", named=False, width=NARROW)
        )
    first = ", of the first window of time" if len(solution.windows) > 1 else ""
    terms = " + ".join(f"{escape(number(s))} Π f<sub>{j + 1}</sub>" for j, s in enumerate(sizes))
    key = legend([(j, f"product {j + 1}, size {number(s)}") for j, s in enumerate(sizes)])
    note = (
        f"{escape(field)} is a sum of {network.separable.rank} products of one-dimensional functions{first}. The {len(sizes)} largest, each function scaled"
        f" to at most one: {escape(field)} = {terms} + …"
    )
    return f'<h2>Factors</h2><p class="note">{note}</p><div class="charts small">{"".join(out)}</div>{key}'


def viewer_section(data: Mapping[str, Any]) -> str:
    """The viewer: where it goes, what it shows, and its script. `<` is written so that no text can end the script."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    colours = {
        name: [to_hex(colormaps[name](i / (STOPS - 1))) for i in range(STOPS)] for name in COLOURS
    }
    text = json.dumps(
        {**data, "colours": colours, "diverging": DIFFERENCES}, separators=(",", ":")
    ).replace("<", "\\u003c")
    note = (
        "Computed here, from the factors, to about"
        f" {max(data['error'], 1e-7):.0e} of the largest value. Move the pointer or the arrow keys over the picture; ▶ runs through an axis."
    )
    if data["left_out"]:
        note += f" Not here, since they are not computed point by point: {escape(', '.join(data['left_out']))}."
    return (
        f'<section class="interactive"><h2>Look around</h2><p class="note">{note}</p><noscript><p class="note">The viewer needs'
        ' JavaScript; the slices below do not.</p></noscript><div id="viewer" class="viewer"></div>'
        f'<script type="application/json" id="viewer-data">{text}</script></section>'
    )


def render(solution: Solution, result: Mapping[str, Any], pictures: list[list[Picture]]) -> str:
    data = payload(solution)
    counts = " × ".join(str(n) for n in solution.recipe.counts(solution.problem.box).values())
    windows = len(solution.windows)
    lead = [
        f"{counts} points",
        result.get("network"),
        f"{windows} windows of time" if windows > 1 else None,
        result.get("device"),
    ]
    title = str(result.get("problem") or solution.problem.name)
    notes = (
        ["<b>Stopped early</b>: these are the best parameters so far."]
        if result.get("interrupted")
        else []
    )
    notes += [escape(words) for words in result.get("advice") or ()]
    body = [
        f'<h1>{escape(title)}</h1><p class="lead">{escape(", ".join(str(part) for part in lead if part))}</p>',
        typeset(result.get("equation") or equation(solution.problem)),
        facts(result),
        *(f'<p class="note">{words}</p>' for words in notes),
        "" if data is None else viewer_section(data),
        slice_section(pictures),
        training(solution),
        factor_section(solution, pictures[0][0].field),
        settings(solution, result),
        "" if data is None else f"<script>{''.join(asset(name) for name in SCRIPTS)}</script>",
    ]
    return document(title, "\n".join(part for part in body if part), "viewer/viewer.css")
