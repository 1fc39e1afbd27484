"""A pytree of arrays on disk: one safetensors file whose header carries JSON. Reading it executes nothing.

The header names the format, the version of papd, the kind of every leaf and a SHA-256 over leaves and
metadata, so that a truncated, altered or foreign file is refused with one line. A file appears whole or not
at all (:func:`papd.runs.files.write_atomic`).
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

import papd
from papd.errors import RunError
from papd.runs.files import reason, write_atomic

FORMAT = 1
"""The number of this layout. A reader refuses a larger one and keeps reading smaller ones."""

MARK = "papd"
Tree = TypeVar("Tree")


def save_tree(
    path: Path, tree: Any, meta: Mapping[str, Any], beside: Mapping[str, Any] | None = None
) -> None:
    """Write the arrays of ``tree``, and ``meta`` (JSON values), to the file ``path``, atomically.

    ``beside`` are further named trees in the same file, for :func:`load_beside`.
    """
    arrays: dict[str, np.ndarray] = {}
    kinds = _pack(tree, "", arrays)
    others = {name: _pack(other, f"{name}/", arrays) for name, other in (beside or {}).items()}
    header = json.dumps(
        {"format": FORMAT, "papd": papd.__version__, "kinds": kinds, "beside": others, "meta": dict(meta)},
        sort_keys=True,
    )
    # One entry: safetensors writes several in any order, and equal trees should be equal files.
    marked = f"{_checksum(header, arrays)} {header}"
    write_atomic(path, safetensors.numpy.save(arrays, metadata={MARK: marked}))


def load_tree(path: Path, template: Tree) -> tuple[Tree, dict[str, Any]]:
    """Read a file of :func:`save_tree` into the structure of ``template`` (arrays, or their shapes).

    Anything that does not fit raises a :class:`RunError` that names the file and the leaf.
    """
    header, arrays = _read(path)
    return _unpack(path, header["kinds"], "", arrays, template), header["meta"]


def load_beside(path: Path, name: str, template: Tree) -> Tree:
    """Read the tree that :func:`save_tree` put beside the main one under ``name``."""
    header, arrays = _read(path)
    if name not in header["beside"]:
        raise RunError(f"{path} has no {name}")
    return _unpack(path, header["beside"][name], f"{name}/", arrays, template)


def _pack(tree: Any, prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, str]:
    """Put the leaves of ``tree`` among ``arrays``; their kinds by name are returned."""
    kinds: dict[str, str] = {}
    for name, leaf in _named_leaves(tree):
        array, kinds[name] = _to_numpy(name, leaf)
        # safetensors writes a transposed array's memory as it lies.
        arrays[prefix + name] = np.asarray(array, order="C")
    return kinds


def _unpack(
    path: Path, kinds: Mapping[str, str], prefix: str, arrays: Mapping[str, np.ndarray], template: Tree
) -> Tree:
    names = [name for name, _ in _named_leaves(template)]
    missing = sorted(set(names) - set(kinds))
    foreign = sorted(set(kinds) - set(names))
    if missing or foreign:
        which = f"has no {missing[0]}" if missing else f"has {foreign[0]}, which the configuration has not"
        raise RunError(f"{path} {which}: it belongs to another configuration")
    leaves = [
        _from_numpy(f"{path}: {name}", arrays[prefix + name], kinds[name], leaf)
        for name, leaf in _named_leaves(template)
    ]
    tree: Tree = jax.tree.unflatten(jax.tree.structure(template), leaves)
    return tree


def read_meta(path: Path) -> dict[str, Any]:
    """The ``meta`` of a file of :func:`save_tree`; the whole file is checked."""
    meta: dict[str, Any] = _read(path)[0]["meta"]
    return meta


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
    return [(jax.tree_util.keystr(path) or "tree", leaf) for path, leaf in jax.tree.leaves_with_path(tree)]


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and jnp.issubdtype(
        leaf.dtype, jax.dtypes.prng_key
    )


def _to_numpy(name: str, leaf: Any) -> tuple[np.ndarray, str]:
    """A leaf as an array, and its kind: ``jax``, ``numpy``, ``python`` or which random key."""
    if _is_key(leaf):
        return np.asarray(jax.random.key_data(leaf)), f"key:{jax.random.key_impl(leaf)}"
    if isinstance(leaf, jax.Array):
        return np.asarray(leaf), "jax"
    if isinstance(leaf, np.ndarray | np.generic):
        return np.asarray(leaf), "numpy"
    if isinstance(leaf, bool | int | float):
        return np.asarray(leaf), "python"
    raise TypeError(f"{name} is a {type(leaf).__name__}: only arrays and numbers can be saved")


def _from_numpy(where: str, array: np.ndarray, kind: str, template: Any) -> Any:
    if kind.startswith("key:") != _is_key(template):
        raise RunError(
            f"{where} is {'a' if kind.startswith('key:') else 'no'} random key: another configuration"
        )
    if kind.startswith("key:"):
        try:
            key = jax.random.wrap_key_data(jnp.array(array), impl=kind.removeprefix("key:"))
        except (TypeError, ValueError) as error:
            raise RunError(f"{where} is no random key of kind {kind.removeprefix('key:')!r}") from error
        if key.dtype != template.dtype:
            raise RunError(f"{where} is a {key.dtype}, the configuration needs a {template.dtype}")
        _check(where, key, template)
        return key
    if isinstance(template, bool | int | float):
        _check(where, array, np.asarray(template))
        return type(template)(array)
    _check(where, array, template)
    return np.array(array) if isinstance(template, np.ndarray | np.generic) else jnp.array(array)


def _check(where: str, found: Any, wanted: Any) -> None:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise RunError(
            f"{where} is {found.dtype}{list(found.shape)}, "
            f"the configuration needs {wanted.dtype}{list(wanted.shape)}"
        )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The checked header and arrays of a file."""
    if path.exists() and not path.is_file():
        raise RunError(f"{path} is no file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunError(f"cannot read {path}: {reason(error)}") from error
    try:
        length = int.from_bytes(data[:8], "little")
        marked = json.loads(data[8 : 8 + length]).get("__metadata__", {})[MARK]
        checksum, _, text = marked.partition(" ")
        header = json.loads(text)
        written_format, writer = int(header["format"]), str(header["papd"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{path} is damaged or was not written by papd") from error
    if written_format > FORMAT:
        raise RunError(
            f"{path} was written by papd {writer} (format {written_format}); this is papd {papd.__version__} "
            f"(format {FORMAT}): upgrade papd"
        )
    try:
        arrays = safetensors.numpy.load(data)
        intact = checksum == _checksum(text, arrays)
        intact = intact and _names(header) == set(arrays)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{path} is damaged or truncated") from error
    if not intact:
        raise RunError(f"{path} is damaged: its checksum does not fit its contents")
    return header, arrays


def _names(header: Mapping[str, Any]) -> set[str]:
    """The arrays that a header speaks of."""
    return {
        *header["kinds"],
        *(f"{name}/{leaf}" for name, kinds in header["beside"].items() for leaf in kinds),
    }


def _checksum(header: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
