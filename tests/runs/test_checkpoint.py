"""A checkpoint comes back bit for bit, or one clear line says why it does not."""

import errno
import json
import os
import resource
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papd.errors import RunError
from papd.runs.checkpoint import load_beside, load_tree, read_meta, save_tree


class Moments(NamedTuple):
    mean: jax.Array
    count: jax.Array


class State(eqx.Module):
    key: jax.Array
    keys: jax.Array
    weights: list[jax.Array]
    moments: Moments
    done: jax.Array
    counter: jax.Array
    nothing: None
    host: np.ndarray
    number: int
    empty: jax.Array


def make_state(seed: int = 0, width: int = 3) -> State:
    key = jax.random.key(seed)
    return State(
        key=key,
        keys=jax.random.split(key, 4),
        weights=[jax.random.normal(key, (width, 2)), jnp.array([jnp.nan, jnp.inf, -0.0])],
        moments=Moments(jnp.float32(0.1), jnp.uint32(7)),
        done=jnp.array([True, False]),
        counter=jnp.int32(2**31 - 1),
        nothing=None,
        host=np.arange(4, dtype=np.float64).reshape(2, 2).T,
        number=5,
        empty=jnp.zeros((0, 3)),
    )


def bits(tree: object) -> list[tuple[str, tuple[int, ...], bytes]]:
    def raw(leaf: object) -> np.ndarray:
        is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return [(str(raw(x).dtype), raw(x).shape, raw(x).tobytes()) for x in jax.tree.leaves(tree)]


def test_round_trip_is_exact(tmp_path: Path) -> None:
    state = make_state()
    save_tree(tmp_path / "x.safetensors", state, {"iteration": 3, "note": "ä"})
    back, meta = load_tree(tmp_path / "x.safetensors", make_state(seed=9))
    assert bits(back) == bits(state)
    assert jax.tree.structure(back) == jax.tree.structure(state)
    assert [type(x) for x in jax.tree.leaves(back)] == [type(x) for x in jax.tree.leaves(state)]
    assert meta == read_meta(tmp_path / "x.safetensors") == {"iteration": 3, "note": "ä"}
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_equal_trees_are_equal_files(tmp_path: Path) -> None:
    for name in ("x", "y"):
        save_tree(tmp_path / name, make_state(), {"b": 1, "a": 2}, {"best": {"w": jnp.ones(3)}})
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_what_lies_beside_comes_back_by_its_name(tmp_path: Path) -> None:
    best, other = {"w": jnp.arange(3.0)}, {"w": jnp.ones((2, 2))}
    save_tree(tmp_path / "x", make_state(), {}, {"best": best, "other": other})
    assert bits(load_tree(tmp_path / "x", make_state(1))[0]) == bits(make_state())
    assert bits(load_beside(tmp_path / "x", "best", {"w": jnp.zeros(3)})) == bits(best)
    assert bits(load_beside(tmp_path / "x", "other", other)) == bits(other)
    with pytest.raises(RunError, match="has no second"):
        load_beside(tmp_path / "x", "second", best)
    with pytest.raises(RunError, match=r"w'\] is float32\[2, 2\]"):
        load_beside(tmp_path / "x", "other", best)


def test_template_may_be_shapes_only(tmp_path: Path) -> None:
    tree = {"key": jax.random.key(1), "x": jnp.ones((2, 3))}
    save_tree(tmp_path / "x", tree, {})
    back, _ = load_tree(tmp_path / "x", jax.eval_shape(lambda: tree))
    assert bits(back) == bits(tree)


def test_a_continued_key_draws_the_same_numbers(tmp_path: Path) -> None:
    state = make_state()
    save_tree(tmp_path / "x", state, {})
    back, _ = load_tree(tmp_path / "x", state)
    assert jnp.array_equal(jax.random.normal(back.key, (5,)), jax.random.normal(state.key, (5,)))


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (
            lambda s: make_state(width=4),
            r"weights\[0\] is float32\[3, 2\], the configuration needs float32\[4, 2\]",
        ),
        (lambda s: eqx.tree_at(lambda t: t.counter, s, jnp.float32(0)), "counter is int32.*needs float32"),
        (lambda s: eqx.tree_at(lambda t: t.key, s, jnp.zeros(2, jnp.uint32)), "key is a random key"),
        (lambda s: eqx.tree_at(lambda t: t.done, s, jax.random.key(0)), "done is no random key"),
        (lambda s: eqx.tree_at(lambda t: t.key, s, jax.random.key(0, impl="rbg")), "key is a key<fry>"),
        (lambda s: eqx.tree_at(lambda t: t.weights, s, [s.weights[0]]), r"has .weights\[1\]"),
        (lambda s: {"other": s}, "has no"),
    ],
)
def test_another_configuration_is_told(tmp_path: Path, template, words: str) -> None:
    state = make_state()
    save_tree(tmp_path / "x", state, {})
    with pytest.raises(RunError, match=words) as raised:
        load_tree(tmp_path / "x", template(state))
    assert "\n" not in str(raised.value)


def test_every_truncation_and_flipped_byte_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x"
    tree = {"a": jnp.arange(3.0), "b": jax.random.key(0)}
    save_tree(file, tree, {"iteration": 1})
    whole = file.read_bytes()
    for damaged in [whole[:n] for n in range(len(whole))] + [
        whole[:n] + bytes([whole[n] ^ (1 << n % 8)]) + whole[n + 1 :] for n in range(len(whole))
    ]:
        file.write_bytes(damaged)
        with pytest.raises(RunError) as raised:
            load_tree(file, tree)
        assert "\n" not in str(raised.value)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_foreign_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "foreign"
    file.write_bytes(data)
    with pytest.raises(RunError, match="damaged"):
        load_tree(file, {"a": jnp.zeros(2)})


def test_a_newer_format_names_both_versions(tmp_path: Path) -> None:
    file = tmp_path / "x"
    header = json.dumps({"format": 99, "papd": "9.0", "kinds": {}, "meta": {}})
    body = json.dumps({"__metadata__": {"papd": f"0 {header}"}}).encode()
    file.write_bytes(len(body).to_bytes(8, "little") + body)
    with pytest.raises(RunError, match=r"papd 9\.0 \(format 99\).*upgrade"):
        load_tree(file, {})


def test_missing_file_folder_and_pickle(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="No such file"):
        read_meta(tmp_path / "absent")
    with pytest.raises(RunError, match="is no file"):
        read_meta(tmp_path)
    (tmp_path / "p").write_bytes(b"\x80\x04cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(RunError, match="was not written by papd"):
        read_meta(tmp_path / "p")


def test_functions_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"\['f'\] is a"):
        save_tree(tmp_path / "x", {"f": jnp.tanh}, {})


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    file = tmp_path / "x"
    save_tree(file, {"a": jnp.zeros(2)}, {"iteration": 1})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(RunError, match=r"cannot write .*: No space left on device"):
        save_tree(file, {"a": jnp.ones(2)}, {"iteration": 2})
    monkeypatch.undo()
    assert read_meta(file) == {"iteration": 1}
    assert os.listdir(tmp_path) == ["x"]


def test_a_write_cut_short_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "x"
    save_tree(file, {"a": jnp.zeros(2)}, {"iteration": 1})
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, old[1]))
    try:
        with pytest.raises(RunError, match=r"cannot write .*: File too large"):
            save_tree(file, {"a": jnp.ones(2)}, {"iteration": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert read_meta(file) == {"iteration": 1}
    assert os.listdir(tmp_path) == ["x"]
