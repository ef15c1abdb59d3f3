"""Draws the pictures of the docs: python docs/make_pictures.py

They are SVG files without a background whose words have the colour of the text around them, so that
they suit a light page and a dark one. The site puts them into the page (see `site_hooks.py`). The
README's is a PNG, for pages that we do not make."""

import contextlib
import io
import re
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

import separax as sx
from separax.paper import find
from separax.separable.rank import fits_of

HERE = Path(__file__).parent / "pictures"
INK = "#010203"  # a colour that nothing else has: it becomes the colour of the page's text
BLUE, ORANGE, GREEN, GREY = "#4c8bf5", "#e8833a", "#2aa876", "#8a8f98"
COLOURS = (BLUE, ORANGE, GREEN)

plt.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "separax",
        "font.family": "sans-serif",
        "font.size": 10,
        "mathtext.fontset": "dejavusans",
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": GREY,
        "xtick.color": GREY,
        "ytick.color": GREY,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "savefig.transparent": True,
        "savefig.bbox": "tight",
    }
)


def save(figure, name):
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = file.getvalue().replace(INK, "currentColor")
    text = re.sub(
        r'<svg ([^>]*?)width="[^"]*" height="[^"]*"|<svg height="[^"]*" ([^>]*?)width="[^"]*"',
        r"<svg \1\2",
        text,
    )
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font: \1px sans-serif", text)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = text.replace(
        "*{stroke-linejoin", "svg *{stroke-linejoin"
    )  # in a page, nothing but pictures
    (HERE / f"{name}.svg").write_text(re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE))


def bumpy(x, y):
    return (
        np.exp(-4 * ((x - 0.3) ** 2 + (y - 0.2) ** 2))
        - 0.8 * np.exp(-6 * ((x + 0.4) ** 2 + (y + 0.3) ** 2))
        + 0.3 * np.sin(3 * x * y)
    )


def terms(rank):
    """The singular vectors of a bumpy function: the best sums of products there are in two axes."""
    grid = np.linspace(-1, 1, 80)
    left, sizes, right = np.linalg.svd(bumpy(grid[:, None], grid[None, :]))
    return grid, left[:, :rank] * np.sqrt(sizes[:rank]), right[:rank].T * np.sqrt(sizes[:rank])


def heat_map(axes, values, most=1.1):
    axes.imshow(
        values.T,
        origin="lower",
        cmap="RdBu_r",
        vmin=-most,
        vmax=most,
        extent=(-1, 1, -1, 1),
        interpolation="bilinear",
    )
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(True)


def sum_of_products():
    grid, f, g = terms(3)
    figure = plt.figure(figsize=(7.4, 4.6))
    places = figure.add_gridspec(
        3, 7, width_ratios=(1, 0.14, 1, 0.14, 0.9, 0.14, 1.7), hspace=0.5, wspace=0.15
    )
    most = 1.1 * max(np.abs(f).max(), np.abs(g).max())
    for j in range(3):
        for i, (factor, name) in enumerate(((f, "f"), (g, "g"))):
            axes = figure.add_subplot(places[j, 2 * i])
            axes.axhline(0, color=GREY, linewidth=0.5)
            axes.plot(grid, factor[:, j], color=COLOURS[j], linewidth=2)
            axes.set(xticks=[], yticks=[], ylim=(-most, most))
            axes.set_title(f"{name}{'₁₂₃'[j]}({'xy'[i]})", fontsize=10, loc="left", pad=3)
        heat_map(figure.add_subplot(places[j, 4]), np.outer(f[:, j], g[:, j]))
        for place, sign in ((1, "×"), (3, "="), (5, "+" if j < 2 else "")):
            axes = figure.add_subplot(places[j, place])
            axes.text(0.5, 0.5 if place < 5 else -0.28, sign, ha="center", va="center", fontsize=15)
            axes.axis("off")
    axes = figure.add_subplot(places[:, 6])
    heat_map(axes, f @ g.T)
    axes.set_title("u(x, y), their sum", fontsize=10)
    save(figure, "sum_of_products")


def lattice():
    """64 values per axis make a lattice of 64²: what is computed, and what comes of it."""
    figure, axes = plt.subplots(figsize=(6.6, 3.6))
    xs, ys = np.linspace(0, 1, 12), np.linspace(0, 1, 9)
    axes.plot(*(c.ravel() for c in np.meshgrid(xs, ys)), "o", color=GREY, markersize=3.5, alpha=0.7)
    axes.plot(xs, -0.22 + 0 * xs, "o", color=BLUE, markersize=7)
    axes.plot(-0.13 + 0 * ys, ys, "o", color=ORANGE, markersize=7)
    for x in xs[[7]]:
        axes.plot([x, x], [-0.17, ys[5]], color=BLUE, linewidth=1.4)
    axes.plot([-0.09, xs[7]], [ys[5]] * 2, color=ORANGE, linewidth=1.4)
    axes.plot(xs[7], ys[5], "o", color=GREEN, markersize=9)
    axes.text(1.06, -0.22, "12 passes of the network of x", va="center")
    axes.text(-0.13, 1.1, "9 passes of the network of y", ha="left")
    axes.text(
        1.06,
        0.55,
        "108 values, each the sum\nof r products: one matrix\nproduct makes them all",
        va="center",
    )
    axes.set(xlim=(-0.2, 1.75), ylim=(-0.35, 1.25))
    axes.axis("off")
    save(figure, "lattice")


def derivative():
    grid, f, g = terms(1)
    x = np.linspace(-1, 1, 400)
    factor = np.interp(x, grid, f[:, 0])
    slope = np.gradient(factor, x)
    figure = plt.figure(figsize=(7.2, 2.9))
    places = figure.add_gridspec(
        2, 5, width_ratios=(1, 0.16, 1, 0.16, 0.8), hspace=0.6, wspace=0.15
    )
    rows = (
        ("f(x)", factor / np.abs(factor).max(), "u = f g"),
        ("f ′(x)", slope / np.abs(slope).max(), "u_x = f ′ g"),
    )
    for row, (name, curve, title) in enumerate(rows):
        for place, values, label, colour in (
            (0, curve, name, BLUE),
            (2, np.interp(x, grid, g[:, 0]) / np.abs(g[:, 0]).max(), "g(y)", GREY),
        ):
            axes = figure.add_subplot(places[row, place])
            axes.axhline(0, color=GREY, linewidth=0.5)
            axes.plot(x, values, color=colour, linewidth=2)
            axes.set(xticks=[], yticks=[], ylim=(-1.2, 1.2))
            axes.set_title(label, fontsize=10, loc="left", pad=3)
        for place, sign in ((1, "×"), (3, "=")):
            axes = figure.add_subplot(places[row, place])
            axes.text(0.5, 0.5, sign, ha="center", va="center", fontsize=15)
            axes.axis("off")
        axes = figure.add_subplot(places[row, 4])
        heat_map(axes, np.outer(curve, np.interp(x, grid, g[:, 0]) / np.abs(g[:, 0]).max()))
        axes.set_title(title, fontsize=10, pad=4)
    save(figure, "derivative")


def rank():
    """The error of the best sum of products, against their number, of functions of two axes."""
    box = sx.Box(x=(-1, 1), y=(-1, 1))
    functions = {
        "sin 4πx sin 4πy": lambda x, y: jnp.sin(4 * jnp.pi * x) * jnp.sin(4 * jnp.pi * y),
        "1 / (1 + (x - y)²)": lambda x, y: 1 / (1 + (x - y) ** 2),
        "exp(-30 (x - y)²), a ridge": lambda x, y: jnp.exp(-30 * (x - y) ** 2),
        "|x - y|, a crease": lambda x, y: jnp.abs(x - y),
    }
    figure, axes = plt.subplots(figsize=(6.6, 3.8))
    ranks = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    for (name, function), colour in zip(functions.items(), (GREEN, BLUE, ORANGE, "#b05ad0")):
        found = fits_of(function, box, ranks)
        errors = [max(fit.relative_l2, 1e-9) for fit in found]
        axes.semilogy(ranks, errors, "o-", color=colour, linewidth=2, markersize=4)
        middle = {GREEN: 2, BLUE: 5, ORANGE: 6, "#b05ad0": 8}[colour]
        axes.annotate(name, (ranks[middle], errors[middle]), (7, 5), textcoords="offset points")
    axes.set(
        xlabel="rank: the number of products",
        ylabel="relative L2 error of the best sum",
        ylim=(4e-10, 3),
        xlim=(0, 36),
    )
    axes.grid(color=GREY, alpha=0.25, linewidth=0.6)
    save(figure, "rank")


def gram():
    """A norm without a lattice: one small matrix per axis."""
    figure, axes = plt.subplots(figsize=(7.2, 2.7))

    def matrix(x, width, height, label, below, colour):
        axes.add_patch(
            FancyBboxPatch(
                (x, -height / 2),
                width,
                height,
                "round,pad=0,rounding_size=0.03",
                facecolor=colour,
                alpha=0.25,
                linewidth=0,
            )
        )
        axes.add_patch(
            FancyBboxPatch(
                (x, -height / 2),
                width,
                height,
                "round,pad=0,rounding_size=0.03",
                fill=False,
                edgecolor=colour,
                linewidth=1.6,
            )
        )
        axes.text(x + width / 2, 0, label, ha="center", va="center")
        axes.text(
            x + width / 2,
            -height / 2 - 0.13,
            below,
            ha="center",
            va="center",
            fontsize=9,
            color=GREY,
        )

    for i, (name, colour) in enumerate(zip("xyz", COLOURS)):
        x = 1.75 * i
        matrix(x, 0.8, 0.3, f"F{name}ᵀ", "r × N", colour)
        matrix(x + 0.86, 0.3, 0.8, f"F{name}", "N × r", colour)
        if i < 2:
            axes.text(x + 1.45, 0, "∘", ha="center", va="center", fontsize=17)
    axes.text(4.85, 0, "=", ha="center", va="center", fontsize=15)
    matrix(5.05, 0.3, 0.3, "G", "r × r", GREY)
    axes.text(5.62, 0, "→  ∫u² = Σ G", ha="left", va="center")
    axes.text(0, 0.62, "one Gram matrix per axis, multiplied entry by entry (∘)", ha="left")
    axes.set(xlim=(-0.05, 6.9), ylim=(-0.7, 0.8))
    axes.set_aspect("equal")
    axes.axis("off")
    save(figure, "gram")


def data_flow():
    figure, axes = plt.subplots(figsize=(7.4, 6.0))

    def box(x, y, width, title, words, colour=BLUE):
        axes.add_patch(
            FancyBboxPatch(
                (x, y),
                width,
                0.78,
                "round,pad=0,rounding_size=0.1",
                facecolor=colour,
                alpha=0.16,
                linewidth=0,
            )
        )
        axes.add_patch(
            FancyBboxPatch(
                (x, y),
                width,
                0.78,
                "round,pad=0,rounding_size=0.1",
                fill=False,
                edgecolor=colour,
                linewidth=1.4,
            )
        )
        axes.text(
            x + width / 2, y + 0.5, title, ha="center", va="center", fontweight="bold", fontsize=10
        )
        axes.text(x + width / 2, y + 0.22, words, ha="center", va="center", fontsize=8.5)

    def arrow(start, end, bend=0.0):
        style = f"arc3,rad={bend}"
        axes.add_patch(
            FancyArrowPatch(
                start,
                end,
                arrowstyle="-|>",
                mutation_scale=12,
                color=GREY,
                linewidth=1.4,
                connectionstyle=style,
            )
        )

    box(0.0, 6.3, 2.9, "your ten lines", "or an entry of the catalogue", GREEN)
    box(4.3, 6.3, 2.9, "Recipe", "network, points, optimiser", GREEN)
    box(0.0, 5.0, 2.9, "Problem", "traced once: what is needed?", GREEN)
    box(4.3, 5.0, 2.9, "Sampler", "coordinates of each axis", BLUE)
    box(4.3, 3.9, 2.9, "jets", "one pass per axis: f, f ′, f ″ …", BLUE)
    box(4.3, 2.8, 2.9, "fields", "u.xx, u.t: sums, not values yet", BLUE)
    box(0.0, 3.35, 2.9, "residual, conditions", "your functions, called on fields", BLUE)
    box(0.0, 2.25, 2.9, "named losses", "Gram matrices, or one merge", BLUE)
    box(4.3, 1.7, 2.9, "gradient, optimiser", "thousands of steps per launch", BLUE)
    box(0.0, 0.6, 2.9, "session", "history, best, saving, Ctrl-C", ORANGE)
    box(4.3, 0.6, 2.9, "Solution", "call, differentiate, measure", ORANGE)
    arrow((1.45, 6.3), (1.45, 5.8))
    arrow((5.75, 6.3), (5.75, 5.8))
    arrow((5.75, 5.0), (5.75, 4.7))
    arrow((5.75, 3.9), (5.75, 3.6))
    arrow((1.45, 5.0), (1.45, 4.15))
    arrow((4.3, 3.2), (2.92, 3.65))
    arrow((1.45, 3.35), (1.45, 3.05))
    arrow((2.9, 2.6), (4.28, 2.15))
    arrow((7.2, 2.1), (7.22, 4.25), 0.55)
    arrow((4.3, 1.85), (2.92, 1.15))
    arrow((2.9, 0.98), (4.28, 0.98))
    axes.text(8.05, 3.1, "next\nstep", ha="center", va="center", fontsize=9, color=GREY)
    axes.set(xlim=(-0.1, 8.4), ylim=(0.4, 7.3))
    axes.axis("off")
    save(figure, "data_flow")


def tutorial():
    """The tutorial's own figure, by its own lines."""
    text = (HERE.parent / "tutorial.md").read_text()
    names = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), names)
    for panel in names["figure"].axes:
        for mesh in panel.collections:  # thousands of cells, which a page would draw one by one
            mesh.set_rasterized(True)
    save(names["figure"], "tutorial")


def opening():
    """The README's: a front wound up by a vortex, and what is wrong with it, solved for here."""
    problem, recipe = find("flow-mixing").make()
    solution = sx.solve(problem, recipe)
    print(f"flow-mixing: relative L2 error {solution.relative_l2():.1e}")
    along = np.linspace(-4, 4, 300)
    panels = [(f"u at t = {t}", solution(t=t, x=along, y=along)) for t in (0, 2, 4)]
    error = panels[-1][1] - problem.reference(4.0, along[:, None], along[None, :])
    white = {"text.color": "#24292f", "xtick.color": "#57606a", "savefig.transparent": False}
    with plt.rc_context(white | {"font.size": 9}):
        figure, places = plt.subplots(1, 4, figsize=(9.2, 2.15), layout="constrained")
        for axes, (title, values) in zip(places, [*panels, ("u - exact, at t = 4", error)]):
            most = np.abs(values).max()
            image = axes.imshow(
                values.T, origin="lower", cmap="RdBu_r", vmin=-most, vmax=most, extent=(-4, 4) * 2
            )
            axes.set(xticks=[], yticks=[], title=title)
            axes.spines[:].set_visible(False)
            if axes in places[2:]:
                bar = figure.colorbar(image, fraction=0.046, pad=0.03)
                bar.outline.set_visible(False)
                bar.locator = plt.MaxNLocator(3, symmetric=True)
                bar.formatter.set_powerlimits((-2, 3))
        figure.savefig(HERE / "opening.png", dpi=150, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for draw in (sum_of_products, lattice, derivative, rank, gram, data_flow, tutorial, opening):
        draw()
