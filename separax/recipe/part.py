"""What optimisers and weightings have in common: frozen, comparable, described by their fields."""

from __future__ import annotations

import dataclasses

import equinox as eqx


class AbstractPart(eqx.Module):
    """A part of a recipe. Its text is all of its fields, on one line: runs are compared by it."""

    def __repr__(self) -> str:
        each = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self))
        return f"{type(self).__qualname__}({', '.join(each)})"
