"""Shapes and types of every public function are checked while the tests run, and silent broadcasting is an error."""

import os
import tempfile

import jaxtyping

jaxtyping.install_import_hook("papd", "beartype.beartype")

# Compiled programs are shared by the tests of a run and its worker processes, not with the user's own cache.
os.environ.setdefault("PAPD_CACHE_DIR", os.path.join(tempfile.gettempdir(), "papd-test-cache"))

import jax  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")
