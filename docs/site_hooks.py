"""What the site does with the pages besides: pictures become part of them, and what the site does
not hold is not linked."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
FIGURES = "results/h200/rows/figures/"  # outside docs/, made by `separax reproduce`
IMAGE = re.compile(r'<p><img alt="([^"]*)" src="[^"]*pictures/(\w+)\.svg" */?></p>')
OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\((?:\.\./)+(?:results|benchmarks|examples|README)[^)]*\)")
COMMANDS = "<!-- separax --help -->"


def on_files(files: Files, config: Any) -> Files:
    for path in sorted((ROOT / FIGURES).glob("*.png")):
        files.append(File.generated(config, FIGURES + path.name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to the repository's other files become their names: the pages are read where those are
    not."""
    markdown = OUTSIDE.sub(r"\1", markdown).replace(f"../{FIGURES}", FIGURES)
    return markdown.replace(COMMANDS, commands()) if COMMANDS in markdown else markdown


def on_page_content(content: str, page: Any, config: Any, files: Files) -> str:
    """An SVG file in an <img> would not know whether the page is dark."""

    def inlined(found: re.Match[str]) -> str:
        drawing = (Path(__file__).parent / "pictures" / f"{found[2]}.svg").read_text()
        label = html.escape(html.unescape(found[1]), quote=True)
        named = drawing.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
        return f'<div class="picture">{named}</div>'

    return IMAGE.sub(inlined, content)


def commands() -> str:
    """Every command with its arguments and options, as `separax COMMAND --help` has them."""
    import typer

    from separax.cli.app import app

    parts = []
    for name, command in typer.main.get_command(app).commands.items():  # pyright: ignore[reportAttributeAccessIssue]
        usage = re.sub(
            "[{}]", "", " ".join(command.collect_usage_pieces(command.context_class(command)))
        ).upper()
        shown = [p for p in command.params if p.name != "help"]
        names = [
            ", ".join(p.opts) if p.param_type_name == "option" else p.name.upper() for p in shown
        ]
        rows = [f"| `{label}` | {help_of(p)} |" for label, p in zip(names, shown)]
        table = "\n".join(["| | meaning |", "|---|---|", *rows]) if rows else ""
        parts.append(f"## {name}\n\n{command.help}\n\n    separax {name} {usage}\n\n{table}")
    return "\n\n".join(parts)


def help_of(parameter: Any) -> str:
    default = getattr(parameter, "show_default", None)
    if not isinstance(default, str):
        plain = parameter.default
        default = (
            str(plain)
            if isinstance(plain, (str, int, float)) and not isinstance(plain, bool) and plain != ""
            else ""
        )
    return (parameter.help or "") + (f" Default: {default}." if default else "")
