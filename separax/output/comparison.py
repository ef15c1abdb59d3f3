"""Several runs on one page: what differs, what came out, their curves over each other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..core import InputError
from ..solution import Ensemble, Solution
from .charts import STYLES, Series, chart
from .page import document, recipe_facts, seconds, typeset

SETTINGS = (
    "problem",
    "recipe",
    "network",
    "points",
    "steps",
    "seed",
    "seeds",
    "precision",
    "device",
)
# column, key in the record, how it is written; the least of each is the best
RESULTS = (
    ("relative L2 error", "relative_l2", "{:.2e}".format),
    ("loss", "loss", "{:.2e}".format),
    ("training", "train_seconds", seconds),
    ("compiling", "compile_seconds", seconds),
    ("ms per step", "ms_per_step", "{:.3g}".format),
)

Runs = Sequence[tuple[Solution | Ensemble, Mapping[str, Any]]]


def write_comparison(runs: Runs, path: str | os.PathLike[str]) -> Path:
    """Writes a page that compares runs, each a solution and its record; returns the page."""
    from ..runs import write
    from .figures import written

    if len(runs) < 2:
        raise InputError(
            f"compare: {len(runs)} run given: name at least two, separax report RUN RUN --out page.html"
        )
    path = Path(path)
    return written(path, lambda: write(path, render(runs, path.parent).encode()))


def render(runs: Runs, folder: Path) -> str:
    solutions = [found[0] if isinstance(found, Ensemble) else found for found, _ in runs]
    records = [record for _, record in runs]
    names = labels(records)
    problems = list(
        dict.fromkeys(str(r.get("problem") or s.problem.name) for s, r in zip(solutions, records))
    )
    title = f"{len(runs)} runs of {problems[0]}" if len(problems) == 1 else f"{len(runs)} runs"
    equation = typeset(records[0].get("equation") or {}) if len(problems) == 1 else ""
    losses = [Series(n, s.history.steps, s.history.total) for n, s in zip(names, solutions)]
    errors = [Series(n, s.history.error_steps, s.history.errors) for n, s in zip(names, solutions)]
    curves = chart(
        errors, "step", "relative L2 error", log=True, title="Error of the best parameters so far"
    )
    curves += chart(losses, "step", "loss", log=True, title="Loss")
    many = f'<p class="note">Lines repeat after {STYLES}.</p>' if len(runs) > STYLES else ""
    same = (
        "Losses of runs with different weights or points do not compare; errors do."
        if len(problems) == 1
        else ""
    )
    lead = f'<p class="lead">{escape(", ".join(problems))}</p>' if len(problems) > 1 else ""
    body = (
        f"<h1>{escape(title)}</h1>{lead}{equation}"
        f'<h2>Runs</h2><div class="wide">{table(names, solutions, records, folder)}</div>'
        f'<h2>Training</h2><p class="note">{same}</p><div class="charts">{curves}</div>{many}'
    )
    return document(title, body)


def labels(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A short name for each run: its folder's, numbered where that is not enough."""
    names = [Path(str(r.get("run_dir") or f"run {i + 1}")).name for i, r in enumerate(records)]
    return [n if names.count(n) == 1 else f"{n} ({i + 1})" for i, n in enumerate(names)]


def differing(
    solutions: Sequence[Solution], records: Sequence[Mapping[str, Any]]
) -> dict[str, list[str]]:
    """The settings that are not the same in all runs, with every run's value."""
    each = [
        {**{k: r.get(k) for k in SETTINGS}, **recipe_facts(s.recipe)}
        for s, r in zip(solutions, records)
    ]
    keys = dict.fromkeys(key for one in each for key in one)
    rows = {key: ["–" if one.get(key) is None else str(one[key]) for one in each] for key in keys}
    return {key: values for key, values in rows.items() if len(set(values)) > 1}


def table(
    names: Sequence[str],
    solutions: Sequence[Solution],
    records: Sequence[Mapping[str, Any]],
    folder: Path,
) -> str:
    settings = differing(solutions, records)
    results = [column for column in RESULTS if any(r.get(column[1]) is not None for r in records)]
    head = "".join(
        f"<th>{escape(str(h))}</th>" for h in ("run", *settings, *(label for label, *_ in results))
    )
    best = {key: min(r[key] for r in records if r.get(key) is not None) for _, key, _ in results}
    rows = []
    for i, (name, record) in enumerate(zip(names, records)):
        cells = [f"<td>{_linked(name, record, folder)}</td>"]
        cells += [f"<td>{escape(values[i])}</td>" for values in settings.values()]
        for _, key, shown in results:
            value = record.get(key)
            kind = " class=best" if value is not None and value == best[key] else ""
            cells.append(f"<td{kind}>{'–' if value is None else escape(shown(value))}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f'<table class="runs"><tr>{head}</tr>{"".join(rows)}</table>'


def _linked(name: str, record: Mapping[str, Any], folder: Path) -> str:
    """A run's name, with a link to its own page where that lies where the record says."""
    page = Path(str(record.get("run_dir") or "")) / "report.html"
    if not record.get("run_dir") or not page.is_file():
        return escape(name)
    return f'<a href="{escape(Path(os.path.relpath(page, folder)).as_posix(), quote=True)}">{escape(name)}</a>'
