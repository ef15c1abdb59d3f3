"""The order of the rooms: a module imports from its own room and from rooms above, through their doors, and no private name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "separax"
ROOMS = (
    "core", "domain", "separable", "networks", "equations", "recipe", "residuals", "training", "solution", "runs", "solving",
    "output", "paper", "cli",
)  # fmt: skip
DOORS = {"__init__", "__main__", "rank", "flows"}  # what may lie beside the rooms
# a method that hands on to a room below imports it when it is called
LATE = {("domain", "output"), ("equations", "output"), ("solution", "output"), ("solution", "runs")}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> list[tuple[ast.ImportFrom, bool]]:
    """Relative imports, and whether each is inside a function."""
    found = []

    def walk(node: ast.AST, late: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ImportFrom) and child.level:
                found.append((child, late))
            walk(child, late or isinstance(child, (ast.FunctionDef, ast.Lambda)))

    walk(tree, False)
    return found


def target(path: Path, node: ast.ImportFrom) -> list[str]:
    """The parts of the module that is imported from, below the package."""
    here = list(path.relative_to(PACKAGE).parts[:-1])
    return here[: len(here) - (node.level - 1)] + (node.module.split(".") if node.module else [])


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


@pytest.mark.parametrize(
    "path", [p for p in modules() if room(p) in ROOMS], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_a_module_imports_only_from_its_own_room_and_from_rooms_above(path):
    for node, late in imports(ast.parse(path.read_text())):
        there = target(path, node)
        assert there, f"line {node.lineno}: name the room: from ..{node.names[0].name} import …"
        own, other = room(path), there[0]
        if own == other:
            continue
        above = ROOMS.index(other) < ROOMS.index(own)
        assert above or (late and (own, other) in LATE), (
            f"line {node.lineno}: {own} imports from {other}, which lies below"
        )
        assert len(there) == 1, (
            f"line {node.lineno}: import through the door: from ..{other} import …"
        )
        hidden = [alias.name for alias in node.names if private(alias.name)]
        assert not hidden, f"line {node.lineno}: {hidden} of {other} is private"


def test_the_top_level_holds_the_rooms_and_the_public_face_alone():
    assert {p.stem for p in PACKAGE.glob("*.py")} == DOORS
    assert {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"} == set(
        ROOMS
    )


@pytest.mark.parametrize("name", ROOMS)
def test_a_door_exports_what_it_imports(name):
    tree = ast.parse((PACKAGE / name / "__init__.py").read_text())
    brought = {alias.asname or alias.name for node, _ in imports(tree) for alias in node.names}
    said = [
        ast.literal_eval(n.value)
        for n in tree.body
        if isinstance(n, ast.Assign) and n.targets[0].id == "__all__"
    ]
    assert brought == set(said[0] if said else [])


# --- private attributes ----------------------------------------------------------------------------------------------

OF_PYTHON = {"_replace", "_asdict", "_fields", "_getframe"}  # private by their looks only
# attributes of other rooms' objects that are still used: this list may only shrink
STILL_USED: set[tuple[str, str]] = set()


def own_names(tree: ast.AST) -> set[str]:
    """The private names of members that the classes of a module have."""
    found = set()
    for node in ast.walk(tree):
        for member in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(member, ast.FunctionDef):
                found.add(member.name)
            targets = (
                member.targets
                if isinstance(member, ast.Assign)
                else [getattr(member, "target", None)]
            )
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return {name for name in found if private(name)}


def foreign(tree: ast.AST, own: set[str]) -> dict[str, int]:
    """Private attributes of objects that no module of the room defines, with their lines."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr):
            mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            above = isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()"
            if not (mine or above) and node.attr not in own | OF_PYTHON:
                found[node.attr] = node.lineno
    return found


@pytest.mark.parametrize("name", ROOMS)
def test_no_module_looks_into_the_objects_of_another_room(name):
    trees = {path: ast.parse(path.read_text()) for path in modules() if room(path) == name}
    own = set().union(*map(own_names, trees.values()))
    seen = {
        (str(path.relative_to(PACKAGE)), attribute): line
        for path, tree in trees.items()
        for attribute, line in foreign(tree, own).items()
    }
    allowed = {each for each in STILL_USED if each[0].startswith(f"{name}/")}
    new = {each: line for each, line in seen.items() if each not in allowed}
    assert not new, f"private attributes of another room: {new}"
    assert allowed <= set(seen), f"take off the list what is used no more: {allowed - set(seen)}"
