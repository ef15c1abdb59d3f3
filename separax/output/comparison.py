"""Several runs on one page: what differs, what came out, their curves over each other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..core import InputError
from ..solution import Ensemble, Solution
from .figures import curves, new_file
from .page import document, drawn, recipe_facts, seconds, typeset

SETTINGS = "problem recipe network points steps seed seeds precision device".split()
# column, key in the record, how it is written; the least of each is the best
RESULTS = (
    ("relative L2 error", "relative_l2", "{:.2e}".format),
    ("loss", "loss", "{:.2e}".format),
    ("training", "train_seconds", seconds),
    ("compiling", "compile_seconds", seconds),
    ("ms per step", "ms_per_step", "{:.3g}".format),
)

Records = Sequence[Mapping[str, Any]]
Runs = Sequence[tuple[Solution | Ensemble, Mapping[str, Any]]]


def write_comparison(runs: Runs, path: str | os.PathLike[str]) -> Path:
    """Writes a page that compares runs.

    Arguments:
        runs: pairs of a solution and its record; of several seeds, the first is shown.
        path: of the page.

    Returns: the page.
    """
    if len(runs) < 2:
        raise InputError(
            f"compare: {len(runs)} run given: name at least two, separax report RUN RUN --out"
            " page.html"
        )
    path = Path(path)
    with new_file(path) as draft:
        draft.write_text(render(runs, path.parent), encoding="utf-8")
    return path


def render(runs: Runs, folder: Path) -> str:
    """The page as HTML, with links from its folder."""
    solutions = [found.solutions[0] for found, _ in runs]
    records = [record for _, record in runs]
    names = labels(records)
    problems = list(
        dict.fromkeys(str(r.get("problem") or s.problem.name) for s, r in zip(solutions, records))
    )
    one = len(problems) == 1
    title = f"{len(runs)} runs of {problems[0]}" if one else f"{len(runs)} runs"
    histories = {name: s.history for name, s in zip(names, solutions)}
    errors = {name: (h.error_steps, h.errors) for name, h in histories.items()}
    losses = {name: (h.steps, h.total) for name, h in histories.items()}
    above = "Error of the best parameters so far"
    figures = drawn(curves(errors, "step", "relative L2 error", above, log=True), "errors")
    figures += drawn(curves(losses, "step", "loss", "Loss", log=True), "losses")
    body = [
        f"<h1>{escape(title)}</h1>",
        typeset(records[0].get("equation") or {})
        if one
        else f'<p class="lead">{escape(", ".join(problems))}</p>',
        f'<h2>Runs</h2><div class="wide">{table(names, solutions, records, folder)}</div>',
        "<h2>Training</h2>",
        '<p class="note">Losses of runs with different weights or points do not compare; errors'
        " do.</p>"
        if one
        else "",
        f'<div class="charts">{figures}</div>',
    ]
    return document(title, "".join(body))


def labels(records: Records) -> list[str]:
    """A short name for each run: its folder's, numbered where that is not enough."""
    names = [Path(str(r.get("run_dir") or f"run {i + 1}")).name for i, r in enumerate(records)]
    return [n if names.count(n) == 1 else f"{n} ({i + 1})" for i, n in enumerate(names)]


def differing(solutions: Sequence[Solution], records: Records) -> dict[str, list[str]]:
    """The settings that are not the same in all runs, with every run's value."""
    each = [
        {k: r.get(k) for k in SETTINGS} | recipe_facts(s.recipe) for s, r in zip(solutions, records)
    ]
    keys = dict.fromkeys(key for one in each for key in one)
    rows = {key: ["–" if one.get(key) is None else str(one[key]) for one in each] for key in keys}
    return {key: values for key, values in rows.items() if len(set(values)) > 1}


def table(
    names: Sequence[str], solutions: Sequence[Solution], records: Records, folder: Path
) -> str:
    """What differs between runs, and what came out of each; the best is marked."""
    settings = differing(solutions, records)
    results = [column for column in RESULTS if any(r.get(column[1]) is not None for r in records)]
    heads = ("run", *settings, *(label for label, *_ in results))
    best = {key: min(r[key] for r in records if r.get(key) is not None) for _, key, _ in results}
    rows = ["".join(f"<th>{escape(head)}</th>" for head in heads)]
    for i, (name, record) in enumerate(zip(names, records)):
        cells = [f"<td>{_linked(name, record, folder)}</td>"]
        cells += [f"<td>{escape(values[i])}</td>" for values in settings.values()]
        for _, key, form in results:
            value = record.get(key)
            kind = ' class="best"' if value is not None and value == best[key] else ""
            cells.append(f"<td{kind}>{'–' if value is None else escape(form(value))}</td>")
        rows.append("".join(cells))
    return f'<table class="runs">{"".join(f"<tr>{row}</tr>" for row in rows)}</table>'


def _linked(name: str, record: Mapping[str, Any], folder: Path) -> str:
    """A run's name, with a link to its own page where that lies where the record says."""
    page = Path(str(record.get("run_dir") or "")) / "report.html"
    if not record.get("run_dir") or not page.is_file():
        return escape(name)
    address = Path(os.path.relpath(page, folder)).as_posix()
    return f'<a href="{escape(address)}">{escape(name)}</a>'
