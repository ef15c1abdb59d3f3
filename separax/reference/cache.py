"""Arrays that take seconds to compute, kept in the user's cache folder with a checksum.

A file that was cut short, changed, emptied or swapped for another one is noticed and computed again, and a folder that
cannot be written to stops nobody: both are said in one warning that names the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..runs import write

CHECKSUM = "sha256"  # the name under which the checksum lies beside the arrays


def folder() -> Path:
    """Where computed arrays are kept: $SEPARAX_CACHE, or `separax` in the system's cache folder."""
    if chosen := os.environ.get("SEPARAX_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "separax"


def cached(name: str, settings: Mapping[str, Any], compute: Callable[[], Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays `compute()` returns, from the cache if they were computed before.

    Arguments:
        name: what they are; the file is called `name-….npz`.
        settings: everything they depend on, a version number of the solver included; other settings, another file.
        compute: a function without arguments that returns arrays by name.
    """
    key = _key(name, settings)
    try:
        path = folder() / f"{name}-{hashlib.sha256(key).hexdigest()[:12]}.npz"
    except (OSError, RuntimeError) as error:  # no home folder
        _say(f"{name}: there is no cache folder ({error}), so it is computed every time: set SEPARAX_CACHE to one")
        return _computed(name, compute)
    try:
        if (found := _read(path, key)) is not None:
            return found
    except Exception as error:  # a damaged file can fail in any way: in zip, in zlib, in NumPy's header, for memory
        _say(f"{path} is damaged or cannot be read ({type(error).__name__}: {error}): computed again")
    arrays = _computed(name, compute)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, _packed(arrays, key))
    except OSError as error:
        _say(f"{path} cannot be written ({error.strerror or error}), so it is computed every time: set SEPARAX_CACHE to a folder")
    return arrays


def _key(name: str, settings: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps([name, dict(settings)], sort_keys=True).encode()
    except TypeError as error:
        raise InputError(f"cached: settings must be plain numbers and words, got {settings!r} ({error})") from None


def _computed(name: str, compute: Callable[[], Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    arrays = {k: np.asarray(a) for k, a in compute().items()}
    for k, a in arrays.items():
        if a.dtype.hasobject or k == CHECKSUM:
            raise InputError(
                f"cached: {name} computed {k!r} of type {a.dtype}: return arrays of numbers, named other than {CHECKSUM!r}"
            )
    return arrays


def _checksum(arrays: Mapping[str, np.ndarray], key: bytes) -> np.ndarray:
    """Of names, types, shapes and bytes, and of the settings: a file moved to another one's place does not fit either."""
    digest = hashlib.sha256(key)
    for k in sorted(arrays):
        a = np.ascontiguousarray(arrays[k])
        digest.update(f"|{k}|{a.dtype.str}|{arrays[k].shape}|".encode())
        digest.update(a.tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


def _packed(arrays: Mapping[str, np.ndarray], key: bytes) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays, **{CHECKSUM: _checksum(arrays, key)})
    return buffer.getvalue()


def _read(path: Path, key: bytes) -> dict[str, np.ndarray] | None:
    """The arrays in a file, or None where there is no file; raises if they are not what was written."""
    if not path.exists():
        return None
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
        arrays = {k: file[k] for k in file.files}
    kept = arrays.pop(CHECKSUM)
    if not np.array_equal(kept, _checksum(arrays, key)):
        raise ValueError("the checksum does not fit")
    return arrays


def _say(message: str) -> None:
    warnings.warn(f"cache: {message}", stacklevel=3)
