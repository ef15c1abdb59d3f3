"""Parts as plain data: a network, an optimiser or a function by its name and its fields.

    None, True, 3, 0.5, "words"    themselves; {"number": "inf"} for what JSON has no number for
    [...]                          a tuple or a list; it comes back as a tuple
    {"mapping": {...}}             a dict
    {"array": [...], "shape", "dtype", "type"}     a small array of NumPy or JAX
    {"part": "separax.SPINN", "fields": {...}}     a frozen dataclass or an Equinox module
    {"function": "jax.nn.gelu"}                    a function or a class
    {"partial": ..., "arguments", "keywords"}      a `functools.partial`

A part or a function of the user's own has a "digest" as well, of its source: it tells a run that is
resumed that there is another function under the same name.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import hashlib
import inspect
import itertools
import math
import pkgutil
import sys
import sysconfig
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from .errors import InputError, say, shown
from .precision import in_float64, is_traced

Data = Any  # what JSON holds
T = TypeVar("T")

LARGEST_ARRAY = 4096  # numbers; more than that is no setting but a result
# functions of JAX know only the private module that they were written in
JAX = ("jax", "jax.nn", "jax.numpy", "jax.lax", "jax.scipy.special", "jax.nn.initializers")


def part_to_data(value: Any, who: str = "") -> Data:
    """The data from which `data_to_part` makes the same value again, in any process.

    Arguments:
        value: plain values, small arrays, functions and parts, and lists and dicts of them.
        who: the argument that the value was given for, named where it is refused; "" for a part
            whose fields are arguments themselves.
    Returns: what JSON can hold. Raises `InputError` for what another process cannot find.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"number": str(value)}
    if isinstance(value, optax.GradientTransformation):
        raise InputError(
            f"{who}: a transformation that Optax has made does not say how it was made, so a run"
            " with it could not be loaded: write how, sx.Optax(optax.adamw, 1e-3)"
        )
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [part_to_data(each, f"{who}[{i}]") for i, each in enumerate(value)]
    if isinstance(value, Mapping):
        if strange := [key for key in value if not isinstance(key, str)]:
            raise InputError(f"{who}: {strange[0]!r} is a key of a dict: keys must be words")
        return {"mapping": {k: part_to_data(v, f"{who}[{k!r}]") for k, v in value.items()}}
    if isinstance(value, (np.ndarray, jax.Array)):
        return _array_to_data(value, who)
    if isinstance(value, functools.partial):
        return {
            "partial": part_to_data(value.func, who),
            "arguments": part_to_data(value.args, who),
            "keywords": part_to_data(value.keywords, who),
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields_to_data(value, who)
    if callable(value) and hasattr(value, "__module__"):
        return {"function": _name_of(value, who)} | _digest_of(value)
    raise InputError(
        f"{who}: {shown(value)} cannot be kept with a run: write plain values, functions, or a"
        " frozen dataclass or an Equinox module of such"
    )


def data_to_part(data: Data, expected: type[T] | tuple[type, ...] = object) -> T:
    """The value that `part_to_data` was given. Parts are made field by field without their
    `__init__`; fields that the data lack have their defaults.

    Arguments:
        data: as `part_to_data` returns it.
        expected: the class that the value must be of.
    Returns: the value. Raises `InputError` where a part cannot be imported or does not fit.
    """
    found = _value(data)
    if not isinstance(found, expected):
        names = expected if isinstance(expected, tuple) else (expected,)
        raise InputError(
            f"{shown(found)} is kept where there should be"
            f" {' or '.join(each.__name__ for each in names)}: it is not what separax wrote"
        )
    return found  # pyright: ignore[reportReturnType]


def difference(one: Data, other: Data, who: str = "") -> tuple[str, str, str] | None:
    """The first place where two values differ, both as data.

    Arguments:
        one, other: the values, as `part_to_data` returns them.
        who: the name of the place where they are.
    Returns: the name of the place, such as "optimiser.rate", and in short what is there in either;
        None where the two are equal.
    """
    if one == other:
        return None
    ones, others = _inside(one, who), _inside(other, who)
    if ones.keys() == others.keys() and _kind(one) == _kind(other):
        found = (difference(ones[place], others[place], place) for place in ones)
        if first := next(filter(None, found), None):
            return first
    was, now = data_in_words(one), data_in_words(other)
    if was == now:  # one name for two functions
        return who, f"{was} as it was", f"{now} as it is now"
    return who, was, now


def _inside(data: Data, who: str) -> dict[str, Data]:
    """What lists, mappings and parts are made of, by the names of their places."""
    match data:
        case list():
            return {f"{who}[{i}]": each for i, each in enumerate(data)}
        case {"mapping": each}:
            return {f"{who}[{key!r}]": value for key, value in each.items()}
        case {"part": _, "fields": each}:
            return {f"{who}.{name}" if who else name: value for name, value in each.items()}
    return {}


def _kind(data: Data) -> tuple[Any, ...]:
    is_part = isinstance(data, dict) and "part" in data
    return (data["part"], data.get("digest")) if is_part else ()


def data_in_words(data: Data) -> str:
    """A value that is kept as data, as one would write it, cut at 100 letters."""
    text = _in_words(data)
    return text if len(text) <= 100 else f"{text[:99]}…"


def _in_words(data: Data) -> str:
    match data:
        case {"number": text}:
            return text
        case {"mapping": each}:
            return "{" + ", ".join(f"{k!r}: {_in_words(v)}" for k, v in each.items()) + "}"
        case {"array": values}:
            return f"an array of {len(values)} numbers"
        case {"part": name, "fields": fields}:
            told = ", ".join(f"{k}={_in_words(v)}" for k, v in fields.items())
            return f"{name.rpartition('.')[2]}({told})"
        case {"function": name}:
            return name
        case {"partial": function}:
            return f"partial({_in_words(function)}, …)"
        case list():
            return "[" + ", ".join(map(_in_words, data)) + "]"
    return repr(data)


# --- arrays and parts ---------------------------------------------------------------------------


def _array_to_data(value: Any, who: str) -> Data:
    kinds = (bool, jnp.integer, jnp.floating)
    numbers = not is_traced(value) and any(jnp.issubdtype(value.dtype, kind) for kind in kinds)
    if not numbers or value.size > LARGEST_ARRAY:
        raise InputError(
            f"{who}: {shown(value)} cannot be kept with the settings of a run, which have room"
            f" for {LARGEST_ARRAY:,} numbers: let a function make it, and give its arguments"
        )
    return {
        "array": [part_to_data(each, who) for each in np.asarray(value).ravel().tolist()],
        "shape": list(value.shape),
        "dtype": str(value.dtype),
        "type": "numpy" if isinstance(value, np.ndarray) else "jax",
    }


def _array(data: Mapping[str, Any]) -> Any:
    values = np.array([_value(each) for each in data["array"]], np.dtype(data["dtype"]))
    found = values.reshape(data["shape"])
    if data["type"] == "numpy":
        return found
    with in_float64():
        return jnp.asarray(found)


def _fields_to_data(value: Any, who: str) -> Data:
    kind = type(value)
    if not isinstance(value, eqx.Module) and not kind.__dataclass_params__.frozen:
        raise InputError(
            f"{who or kind.__name__}: {kind.__name__} can change while a run goes on: write"
            " @dataclass(frozen=True), or let it be an Equinox module"
        )
    names, before = [field.name for field in dataclasses.fields(value)], f"{who}." if who else ""
    fields = {name: part_to_data(getattr(value, name), before + name) for name in names}
    return {"part": _name_of(kind, who or kind.__name__), "fields": fields} | _digest_of(kind)


def _part(data: Mapping[str, Any]) -> Any:
    kind, name, given = _imported(data), data["part"], dict(data["fields"])
    other = "load the run with the version it was made with"
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise InputError(f"{name} is no part any more: it is {shown(kind)}")
    part = object.__new__(kind)
    for field in dataclasses.fields(kind):
        if field.name in given:
            value = _value(given.pop(field.name))
            if type(value) is type(field.default) and value == field.default:
                value = field.default  # the very same: Equinox prints what is another object
        elif field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            said = f"{name} has a field {field.name!r} here that the run does not know"
            raise InputError(f"{said}: {other}")
        object.__setattr__(part, field.name, value)
    if given:
        raise InputError(f"{name} has no field {next(iter(given))!r} here: {other}")
    return part


def _value(data: Data) -> Any:
    match data:
        case {"number": text}:
            return float(text)
        case {"mapping": each}:
            return {key: _value(value) for key, value in each.items()}
        case {"array": _}:
            return _array(data)
        case {"part": _}:
            return _part(data)
        case {"function": _}:
            return _imported(data)
        case {"partial": function, "arguments": arguments, "keywords": keywords}:
            return functools.partial(_value(function), *_value(arguments), **_value(keywords))
        case list():
            return tuple(map(_value, data))
    return data


# --- names --------------------------------------------------------------------------------------


def _name_of(value: Any, who: str) -> str:
    """The name by which any process finds a function or a class: the shortest public one."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    name = name or getattr(value, "__name__", None)
    spec = getattr(sys.modules.get(module or ""), "__spec__", None)
    if not module or not name:
        why = f"{shown(value)} has no name to load it by"
    elif name.rpartition(".")[2] == "<lambda>":
        why = "a lambda has no name by which a run with it could be loaded"
    elif "<locals>" in name:
        outer, _, own = name.rpartition(".<locals>.")
        why = f"{own} is made inside {outer}, where no other process could find it to load a run"
    elif spec is None or spec.name != module:  # __main__, or a file that `separax solve` read
        why = (
            f"{name} is defined in the script itself, which no other process imports to load a run"
        )
    else:
        packages = itertools.accumulate(module.split("."), "{}.{}".format)
        public = itertools.takewhile(lambda each: "._" not in each, packages)
        for door in (*public, *(JAX if module.startswith("jax.") else ()), module):
            with contextlib.suppress(ImportError, AttributeError):
                found = pkgutil.resolve_name(f"{door}:{name}")
                if found is value or (inspect.ismethod(found) and found == value):
                    return f"{door}.{name}"
        why = f"{module}.{name} is something else than {shown(value)}, so a run could not load it"
    word = "class" if isinstance(value, type) else "def"
    raise InputError(
        f"{who}: {why}: define it with {word} at the top level of a module beside your script, and"
        " import it"
    )


def _imported(data: Mapping[str, Any]) -> Any:
    """The class or function that data name."""
    name = data.get("part") or data.get("function")
    assert isinstance(name, str)
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{name} is part of this run and cannot be imported here ({error}): put the folder of"
            f" its module on PYTHONPATH"
        ) from error
    if not callable(found):
        raise InputError(f"{name} is neither a function nor a class: it is {shown(found)}")
    if data.get("digest") != _digest_of(found).get("digest"):
        say(f"{name} was changed after this run was made: what is loaded may be something else")
    return found


def _digest_of(value: Any) -> dict[str, str]:
    """A digest of the source of what is the user's own, without comments; {} for what is installed.

    It does not see what the source calls. Packages have versions, which are kept beside it.
    """
    module = sys.modules.get(value.__module__)
    file = getattr(module, "__file__", None)
    if file is None or value.__module__.startswith("separax."):
        return {}
    paths = sysconfig.get_paths()
    installed = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    if any(Path(file).is_relative_to(folder) for folder in installed):
        return {}
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(value)))
        plain = ast.unparse(ast.parse(source))
    except (OSError, TypeError, ValueError, SyntaxError):
        return {}
    return {"digest": hashlib.sha256(plain.encode()).hexdigest()[:16]}
