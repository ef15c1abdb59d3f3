"""The arrays of a tree by their names in it: how models and states lie in an archive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

Tree = TypeVar("Tree")


def leaves(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree by their names in it, such as `network.body.out.weight`.

    They are copies: what they were taken from may be written over at once.
    """
    paths, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))
    return {_name(path): np.array(leaf) for path, leaf in paths}


def with_leaves(like: Tree, arrays: Mapping[str, np.ndarray], prefix: str = "") -> Tree:
    """A tree with the arrays of these names as its leaves.

    Arguments:
        like: a tree of arrays, or of their shapes and types.
        arrays: by name.
        prefix: what their names begin with.
    Returns: the tree. Raises `TypeError` where an array is missing, or has another shape or type.
    """
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    found = []
    for path, leaf in paths:
        name = prefix + _name(path)
        if name not in arrays:
            raise TypeError(f"{name} is missing")
        array = arrays[name]
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise TypeError(f"{name} has shape {array.shape} and type {array.dtype}")
        found.append(jnp.asarray(array))
    return jax.tree.unflatten(structure, found)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
