"""`report.html`: one self-contained page with a run's equation, error, slices, curves and factors,
and a viewer of its solution."""

from __future__ import annotations

import itertools
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
from ..runs import Damaged, npz, read_npz, write
from ..solution import Ensemble, Solution
from .cuts import Kept, Picture, default_held, has_reference, pictures, shown_axes
from .figures import DIFFERENCES, VALUES, colour_bar, curves, lines, panels_of, single, svg
from .html import mathml
from .viewer import largest_products, payload

SCRIPTS = tuple(f"assets/viewer{part}.js" for part in ("_formula", "_field", "_solid", "_draw", ""))
COLOURS = (VALUES, "cividis", DIFFERENCES)  # of the viewer
STOPS = 33  # of a colour map: in between, straight lines do
POINTS = 128  # of a slice, per axis
MOST_FIELDS = 3  # whose slices are shown
KEPT = "reference.npz"  # the reference on the slices, for when its function is gone
# no page asks the network for anything, whatever the text in it
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
# of a record, what the page shows elsewhere, and what only files are checked with
HIDDEN = "versions advice relative_l2_each relative_l2_windows equation files run sha256".split()
HIDDEN_LAYERS = ("width", "activation", "steepness")  # say nothing where there are none


def asset(name: str) -> str:
    """A style sheet or a script of this package."""
    return resources.files("separax.output").joinpath(name).read_text(encoding="utf-8")


def document(title: str, body: str, *styles: str) -> str:
    """A whole page. `title` is plain text, `body` is HTML."""
    style = "".join(asset(name) for name in ("assets/page.css", *styles))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{style}</style>'
        f"</head>\n<body>\n{body}\n</body></html>\n"
    )


def write_report(found: Solution | Ensemble, folder: Path, result: Mapping[str, Any]) -> Path:
    """Writes the page of a run.

    Arguments:
        found: its solution; of several seeds, the first is shown.
        folder: of the run.
        result: its record.

    Returns: the page.
    """
    solution = found.solutions[0]
    pictures = slices_of(solution, read_kept(folder / KEPT))
    if known := {p.key: p.reference for each in pictures for p in each if p.reference is not None}:
        about = {"kind": "reference", "run": result.get("run"), "pictures": list(known)}
        arrays = {str(i): values for i, values in enumerate(known.values())}
        write(folder / KEPT, npz(about, arrays, compressed=True))
    page = folder / "report.html"
    write(page, render(solution, result, pictures).encode())
    return page


def read_kept(path: Path) -> dict[str, np.ndarray]:
    """The reference's pictures that an earlier page of the run left; nothing where they cannot be
    read."""
    try:
        about, arrays = read_npz(path)
        return {name: arrays[str(i)] for i, name in enumerate(about["pictures"])}
    except (Damaged, KeyError):
        return {}


def slices_of(solution: Solution, kept: Kept) -> list[list[Picture]]:
    """The pictures of the fields that are shown: those whose reference is known first."""
    box = solution.problem.box
    cut = default_held(box, shown_axes(box))
    told = {key.split("|")[0] for key in kept}
    known = lambda name: has_reference(solution, name) or name in told  # noqa: E731
    names = sorted(solution.names, key=lambda name: not known(name))
    points = POINTS if len(cut.shown) == 2 else 512
    return [pictures(solution, name, cut, points, kept=kept) for name in names[:MOST_FIELDS]]


# --- parts of a page ----------------------------------------------------------------------------


def typeset(of: Mapping[str, Any]) -> str:
    """An equation, as formulas where it has some, as the residual's text otherwise."""
    text = "".join(mathml(str(f)) for f in of.get("formulas") or ())
    if not text and of.get("code"):
        text = f"<pre><code>{escape(of['code'])}</code></pre>"
    return f'<div class="equation">{text}</div>' if text else ""


def facts(result: Mapping[str, Any]) -> str:
    """The numbers on top of a page."""
    seeds, steps = result.get("seeds", 1), result.get("steps", 0)
    way = "solving" if result.get("network") == SPECTRAL else "training"
    known = (
        ("relative_l2", "{:.2e}".format, "relative L2 error"),
        ("loss", "{:.2e}".format, "loss"),
        ("estimate", "{:.1e}".format, "estimated error"),
        ("train_seconds", seconds, f"{way}, {steps:,} step{'s' * (steps != 1)}"),
        ("ms_per_step", lambda ms: seconds(ms / 1000), "per step"),
    )
    shown = {label: form(result[k]) for k, form, label in known if result.get(k) is not None}
    shown |= {
        f"found coefficient {name}": f"{value:.5g}"
        for name, value in (result.get("unknowns") or {}).items()
    }
    out = []
    for label, value in shown.items():
        error = label == "relative L2 error"
        words = label + (f", mean of {seeds} seeds" if error and seeds > 1 else "")
        kind = ' class="good"' if error else ""
        out.append(f"<div{kind}><b>{escape(value)}</b><span>{escape(words)}</span></div>")
    return f'<div class="facts">{"".join(out)}</div>'


def seconds(value: float) -> str:
    """A time with its unit."""
    for unit, most, share in (("ms", 1, 1e-3), ("s", 120, 1), ("min", 7200, 60)):
        if value < most:
            return f"{value / share:.3g} {unit}"
    return f"{value / 3600:.3g} h"


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
    """A table of all that a run was asked for and what came out."""
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
    if isinstance(value, tuple):
        # numbers by axis: ((None, 36),) is 36 for all, (("x", 24), ("y", 12)) one for each
        if not all(isinstance(each, tuple) and len(each) == 2 for each in value):
            return ", ".join(map(_shown, value))
        return ", ".join(_shown(v) if k is None else f"{k}: {_shown(v)}" for k, v in value) or "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_shown(v)}" for k, v in value.items())
    return str(value)


def training(solution: Solution) -> str:
    """The curves of training: the loss with its terms, and the error."""
    history = solution.history
    losses = {"loss": history.total} | (history.losses if len(history.losses) > 1 else {})
    named = {name: (history.steps, values) for name, values in losses.items()}
    error = {"error": (history.error_steps, history.errors)}
    found = drawn(curves(named, "step", "loss", "Loss and its terms", log=True), "loss")
    title = "Error of the best parameters so far"
    found += drawn(curves(error, "step", "relative L2 error", title, log=True), "error")
    return f'<h2>Training</h2><div class="charts">{found}</div>' if found else ""


def drawn(figure: Any, name: str) -> str:
    """A figure on a page; nothing where there is none."""
    return "" if figure is None else f"<figure>{svg(figure, name)}</figure>"


def slice_section(pictures: Iterable[list[Picture]]) -> str:
    """The slices of every field that is shown."""
    out = ["<h2>Slices</h2>"]
    for found in pictures:
        out.append(f"<h3>{escape(found[0].field)}</h3>")
        if len(found[0].axes) == 1:
            out.append(f'<div class="charts">{drawn(lines(found), found[0].field)}</div>')
            continue
        panels = list(itertools.chain(*panels_of(found)))
        scales = dict.fromkeys(panel.scale for panel in panels)
        bars = "".join(drawn(colour_bar(scale), scale.label) for scale in scales)
        images = "".join(drawn(single(panel), panel.title) for panel in panels)
        kind = "slices beside" if len(scales) > 1 else "slices"
        out.append(f'<div class="scales">{bars}</div><div class="{kind}">{images}</div>')
    return "".join(out)


def factor_section(solution: Solution, field: str) -> str:
    """The largest products of a field, factor by factor."""
    network = solution.model.network
    if not network.is_separable:
        return ""
    fields = solution.problem.fields
    field = field if field in fields else fields[0]
    factors, sizes = largest_products(solution, field)
    out = []
    for axis, (x, values) in factors.items():
        named = {f"f{j + 1}": (x, column) for j, column in enumerate(values.T)}
        figure = curves(named, axis, "factor", f"Factors along {axis}", width=4.2)
        out.append(drawn(figure, f"factors along {axis}"))
    first = ", of the first window of time" if len(solution.windows) > 1 else ""
    terms = " + ".join(f"{size:.4g} Π f<sub>{j + 1}</sub>" for j, size in enumerate(sizes))
    note = (
        f"{escape(field)} is a sum of {network.separable.rank} products of one-dimensional"
        f" functions{first}."
        f" The {len(sizes)} largest, each function scaled to at most one:"
        f" {escape(field)} = {terms} + …"
    )
    charts = f'<div class="charts small">{"".join(out)}</div>'
    return f'<h2>Factors</h2><p class="note">{note}</p>{charts}'


def viewer_section(data: Mapping[str, Any]) -> str:
    """The viewer: where it goes, what it shows, and its script. `<` is written so that no text can
    end the script."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    colours = {
        name: [to_hex(colormaps[name](i / (STOPS - 1))) for i in range(STOPS)] for name in COLOURS
    }
    data = {**data, "colours": colours, "diverging": DIFFERENCES}
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    note = (
        f"Computed here, from the factors, to about {max(data['error'], 1e-7):.0e} of the largest"
        " value. Move the pointer or the arrow keys over the picture; ▶ runs through an axis."
    )
    if data["left_out"]:
        names = escape(", ".join(data["left_out"]))
        note += f" Not here, since they are not computed point by point: {names}."
    return (
        f'<section class="interactive"><h2>Look around</h2><p class="note">{note}</p>'
        '<noscript><p class="note">The viewer needs JavaScript; the slices below do not.</p>'
        '</noscript><div id="viewer" class="viewer"></div>'
        f'<script type="application/json" id="viewer-data">{text}</script></section>'
    )


def render(solution: Solution, result: Mapping[str, Any], pictures: list[list[Picture]]) -> str:
    """The page of a run as HTML.

    Arguments:
        solution: what is shown.
        result: the record of its run.
        pictures: the slices of each field.
    """
    data = payload(solution)
    counts = " × ".join(str(n) for n in solution.recipe.counts(solution.problem.box).values())
    windows = len(solution.windows)
    several = f"{windows} windows of time" if windows > 1 else None
    lead = (f"{counts} points", result.get("network"), several, result.get("device"))
    title = str(result.get("problem") or solution.problem.name)
    notes = [escape(words) for words in result.get("advice") or ()]
    if result.get("interrupted"):
        notes.insert(0, "<b>Stopped early</b>: these are the best parameters so far.")
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(", ".join(str(part) for part in lead if part))}</p>',
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
    return document(title, "\n".join(part for part in body if part), "assets/viewer.css")
