"""`report.html`: one self-contained page with a run's solution, error and curves."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..solution import Ensemble, Solution
from . import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --faint: #667; --line: #d8dce2; --good: #00724f; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e6e9ee; --paper: #14171b; --faint: #9aa3ad; --line: #333a42; --good: #4fd1a5; }} }}
body {{ margin: 0 auto; max-width: 70rem; padding: 2rem 1.2rem; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }}
h1 {{ font-size: 1.7rem; margin: 0; }} h2 {{ font-size: 1.1rem; margin: 2.2rem 0 .6rem; }}
p.lead {{ margin: .2rem 0 1.4rem; color: var(--faint); }}
.facts {{ display: flex; flex-wrap: wrap; gap: .8rem; }}
.facts div {{ border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .9rem; }}
.facts b {{ display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }} .facts .good b {{ color: var(--good); }}
.facts span {{ color: var(--faint); font-size: .85rem; }}
img {{ width: 100%; height: auto; background: #fff; border: 1px solid var(--line); border-radius: .5rem; }}
table {{ border-collapse: collapse; font-size: .92rem; }} td {{ padding: .2rem 1.2rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }}
td:first-child {{ color: var(--faint); }}
@media print {{ body {{ max-width: none; padding: 0; }} }}
</style></head><body>
<h1>{title}</h1><p class="lead">{lead}</p>
<div class="facts">{facts}</div>
{pictures}
<h2>Settings</h2><table>{settings}</table>
</body></html>
"""


def write_report(found: Solution | Ensemble, folder: Path, result: Mapping[str, Any]) -> Path:
    """Writes the page of a run and its figures; returns the page."""
    from ..runs import write

    solution = found[0] if isinstance(found, Ensemble) else found
    pictures = {"Solution": figures.slices(solution), "Training": figures.curves(solution)}
    for title, figure in pictures.items():
        write(folder / f"{title.lower()}.png", png(figure))
    page = folder / "report.html"
    write(page, render(solution, result, pictures).encode())
    return page


def png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def render(solution: Solution, result: Mapping[str, Any], pictures: Mapping[str, Figure]) -> str:
    def fact(label: str, value: str, good: bool = False) -> str:
        return f"<div{' class=good' if good else ''}><b>{html.escape(value)}</b><span>{html.escape(label)}</span></div>"

    facts = []
    if result["relative_l2"] is not None:
        facts.append(
            fact(
                "relative L2 error" + (f", mean of {result['seeds']} seeds" if result["seeds"] > 1 else ""),
                f"{result['relative_l2']:.2e}",
                True,
            )
        )
    if result["loss"] is not None:
        facts.append(fact("loss", f"{result['loss']:.2e}"))
    facts.append(fact(f"training, {result['steps']:,} steps", f"{result['train_seconds']:.1f} s"))
    facts.append(fact("per step", f"{result['ms_per_step']:.3f} ms" if result["ms_per_step"] else "–"))
    figures_html = "".join(
        f'<h2>{html.escape(title)}</h2><img alt="{html.escape(title)}" src="data:image/png;base64,{base64.b64encode(png(figure)).decode()}">'
        for title, figure in pictures.items()
    )
    rows = {k: v for k, v in result.items() if k not in ("relative_l2_each", "versions")}
    rows |= {f"version of {k}": v for k, v in result.get("versions", {}).items()}
    rows["box"] = repr(solution.problem.box)
    rows["recipe, in full"] = repr(solution.recipe)
    settings = "".join(f"<tr><td>{html.escape(str(k))}</td><td>{html.escape(str(v))}</td></tr>" for k, v in rows.items())
    lead = f"{' × '.join(str(n) for n in solution.recipe.counts(solution.problem.box).values())} points, {result['network']}, {result['device']}"
    return TEMPLATE.format(
        title=html.escape(str(result["problem"])),
        lead=html.escape(lead),
        facts="".join(facts),
        pictures=figures_html,
        settings=settings,
    )
