"""TOML, written: words, numbers, lists and tables of them. Python reads TOML itself (`tomllib`), but does not write it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..core import InputError


def dumps(table: Mapping[str, Any]) -> str:
    """A table as text: its own values first, then its tables, then its lists of tables."""
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: Mapping[str, Any], above: tuple[str, ...]) -> list[str]:
    plain = {k: v for k, v in table.items() if not isinstance(v, Mapping) and not _tables(v)}
    lines = [f"{_key(k)} = {_value(k, v)}" for k, v in plain.items()]
    for key, value in table.items():
        if key in plain:
            continue
        name = (*above, _key(key))
        for each in value if _tables(value) else [value]:
            heading = f"[[{'.'.join(name)}]]" if _tables(value) else f"[{'.'.join(name)}]"
            lines += ["", heading, *_lines(each, name)]
    return lines


def _tables(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(v, Mapping) for v in value)
    )


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _word(name)


def _word(text: str) -> str:
    # JSON's strings are TOML's, but for one character that TOML wants escaped
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _word(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return (
            repr(float(value))
            if math.isfinite(value)
            else "nan"
            if math.isnan(value)
            else "inf"
            if value > 0
            else "-inf"
        )
    if isinstance(value, Sequence):
        return f"[{', '.join(_value(key, v) for v in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(k)} = {_value(key, v)}' for k, v in value.items())}}}"
    raise InputError(
        f"settings: {key} = {value!r} cannot be kept: settings are words, numbers, lists and tables of them"
    )
