"""What the parts of a recipe have in common: frozen, comparable, printed as code."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import optax

from ..core import InputError, part_to_data, whole

Arguments = tuple[tuple[Any, ...], dict[str, Any]]  # by position, and by name


class AbstractPart(eqx.Module):
    """A part of a recipe. It prints all of its fields, on one line: runs are compared by it."""

    def __repr__(self) -> str:
        return as_code(self)

    def constructor_arguments(self) -> Arguments:
        """The arguments that make this part."""
        return (), {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def check_whole(self, **least: int) -> None:
        """Makes fields whole numbers; refuses what is none, or less than the number given here."""
        for name, smallest in least.items():
            value = getattr(self, name)
            if name != "steps" or value is not None:
                value = whole(f"{type(self).__name__}: {name}", value, smallest)
                object.__setattr__(self, name, value)


def is_transformation(given: Any) -> bool:
    """Whether something is an Optax transformation of gradients."""
    return isinstance(given, optax.GradientTransformation)


def as_code(value: Any, importing: bool = False) -> str:
    """A recipe or a part of one as the Python code that makes it again.

    Arguments:
        value: a recipe, a part, a function, or plain values, lists and dicts of them.
        importing: write `sx.Solve(…)`, as after `import separax as sx`, instead of `Solve(…)`.

    Returns:
        The code, on one line. What has no name that can be imported is shown in angle brackets.
    """
    if is_transformation(value):
        return f"<{value.update.__qualname__.split('.')[0].strip('<>')}>"
    if isinstance(value, Mapping):
        each = (f"{key!r}: {as_code(one, importing)}" for key, one in value.items())
        return f"{{{', '.join(each)}}}"
    if type(value) in (list, tuple):
        text = ", ".join(as_code(one, importing) for one in value)
        return f"[{text}]" if isinstance(value, list) else f"({text}{',' * (len(value) == 1)})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _constructed(value, importing)
    if not callable(value):
        return repr(value)
    try:
        return part_to_data(value)["function"]
    except InputError:
        return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"


def _constructed(value: Any, importing: bool) -> str:
    """The call that makes a part, a network or a sampler; of those, without what is default."""
    if says := getattr(value, "constructor_arguments", None):
        positional, named = says()
    else:
        given = {f: getattr(value, f.name) for f in dataclasses.fields(value)}
        positional, named = (), {f.name: v for f, v in given.items() if v != f.default}
    each = [as_code(one, importing) for one in positional]
    each += [f"{name}={as_code(one, importing)}" for name, one in named.items()]
    module = type(value).__module__
    before = "sx." if module.startswith("separax.") else f"{module}."
    return f"{before if importing else ''}{type(value).__qualname__}({', '.join(each)})"
