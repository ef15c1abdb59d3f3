"""Files that can be trusted: written whole or not at all, each with the SHA-256 of its own content.

.npz    arrays; the checksum is the comment of the archive, which NumPy and zip tools pass over, and
        what the arrays are about is JSON in the array `about`
.json   what people read; the checksum is under the key "sha256"

A checksum guards against accidents (a cut transfer, a failing disk, an editor), not against
somebody who writes a new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..core import InputError, shown

Tree = TypeVar("Tree")

MARK = b"sha256:"
ABOUT = "about"


class Damaged(InputError):
    """A file that is not what was written: `path`, and the `reason` in words."""

    def __init__(self, path: Path, reason: str):
        super().__init__(f"{path} {reason}")
        self.path, self.reason = path, reason


def write(path: Path, content: bytes | memoryview) -> None:
    """Write, flush, rename: a reader sees the old file or the new one, never half of one."""
    with writing(path) as draft, open(draft, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A draft to write to: it takes the place of `path` at the end, and goes if anything fails."""
    draft = path.with_name(f".{path.stem}.{os.getpid()}.draft{path.suffix}")
    try:
        yield draft
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def read(path: Path) -> bytes:
    """The content of a file that is not empty. Raises `Damaged`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Damaged(path, f"cannot be read ({error.strerror})") from None
    if not content.strip():
        raise Damaged(path, "is empty")
    return content


def digest_of(content: bytes | memoryview) -> str:
    """The SHA-256 of a content, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


# --- npz ----------------------------------------------------------------------------------------


def npz(
    about: Mapping[str, Any], arrays: Mapping[str, np.ndarray], compressed: bool = False
) -> bytes:
    """The bytes of an archive.

    Arguments:
        about: what the arrays are about, as JSON can hold it.
        arrays: by name.
        compressed: whether they are packed.
    """
    buffer = io.BytesIO()
    named = {ABOUT: np.array(json.dumps(about, allow_nan=False)), **arrays}
    (np.savez_compressed if compressed else np.savez)(buffer, allow_pickle=False, **named)
    # the archive ends with the length of its comment, so far zero; the comment is the checksum of
    # all that stands before it
    buffer.seek(-2, os.SEEK_END)
    buffer.write(struct.pack("<H", len(MARK) + 64))
    buffer.write(MARK + digest_of(buffer.getbuffer()).encode())
    return buffer.getvalue()


def read_npz(
    path: Path, run: str | None = None, kind: str | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What is in an archive.

    Arguments:
        path: of the file.
        run: the identity of the run that it must be of; None: of any or none.
        kind: what it must be, such as "state".

    Returns: what it is about, and its arrays. Raises `Damaged`.
    """
    content = memoryview(read(path))
    before, comment = content[: -len(MARK) - 64], bytes(content[-len(MARK) - 64 :])
    if not comment.startswith(MARK) or comment[len(MARK) :] != digest_of(before).encode():
        raise Damaged(
            path, "was changed or cut short after it was written: its checksum is of other content"
        )
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays.pop(ABOUT)))
    except Exception as error:  # whole, but not one of ours: zip, NumPy and JSON fail in their ways
        reason = f"is not an archive of separax ({type(error).__name__}: {error})"
        raise Damaged(path, reason) from None
    if kind is not None and about.get("kind") != kind:
        raise Damaged(path, f"is no {kind} but a {about.get('kind')}")
    _check_run(path, about, run)
    return about, arrays


def _check_run(path: Path, about: Mapping[str, Any], run: str | None) -> None:
    if run is not None and about.get("run") != run:
        raise Damaged(path, f"is of another run ({about.get('run')}, not {run})")


def leaves(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree by their names in it, such as `network.body.out.weight`: how models and
    states lie in an archive.

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


# --- JSON ---------------------------------------------------------------------------------------


def plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as it will be read back."""
    return json.loads(_canonical(record))


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `record` with the checksum of its content."""
    return (found := plain(_bare(record))) | {"sha256": checksum(found)}


def checksum(record: Mapping[str, Any]) -> str:
    """The SHA-256 of a record's content: of its JSON with sorted keys and no spaces, without the
    checksum itself."""
    return digest_of(_canonical(_bare(record)).encode())


def _bare(record: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in record.items() if k != "sha256"}


def sealed_json(record: Mapping[str, Any]) -> bytes:
    """The content of a file with a record and its checksum."""
    return (json.dumps(seal(record), indent=1) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    """The sealed object in a file, with its checksum. Raises `Damaged`."""
    try:
        text = read(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Damaged(path, f"is not text (byte {error.start})") from None
    try:
        record = json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        # the parser names the end of the text, or the start of a string that never ends
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        reason = "is cut short" if cut else "is not JSON"
        raise Damaged(path, f"{reason} (line {error.lineno}: {error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise Damaged(path, f"is not a record ({error})") from None
    if not isinstance(record, dict):
        raise Damaged(path, f"is not a JSON object but {shown(record)}")
    if "sha256" not in record:
        raise Damaged(path, "has no checksum (sha256)")
    try:
        found = checksum(record)
    except InputError as error:
        raise Damaged(path, str(error)) from None
    if found != record["sha256"]:
        raise Damaged(
            path, "was changed after it was written: its checksum (sha256) is of other content"
        )
    return record


def read_sealed(path: Path, holds: str, run: str | None = None) -> dict[str, Any]:
    """The object in a JSON file of a run, in which nothing was changed, not even spaces.

    Arguments:
        path: of the file.
        holds: a key that no other file has.
        run: the identity of the run that it must be of; None: of any.

    Returns: the object, with its checksum. Raises `Damaged`.
    """
    found = read_json(path)
    if read(path) != sealed_json(found):
        raise Damaged(path, "was changed after it was written")
    if holds not in found:
        raise Damaged(path, f"is another file: it does not say {holds!r}")
    _check_run(path, found, run)
    return found


def _canonical(record: Mapping[str, Any]) -> str:
    try:
        same = json.loads(json.dumps(record, allow_nan=False))
        return json.dumps(same, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"record: {error}: write plain finite numbers, words, lists, dicts or None"
        ) from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different: of two values a reader would see the first, and
    Python the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found
