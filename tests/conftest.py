"""Shapes and types of every public function are checked while the tests run, and silent broadcasting is an error."""

import os
import tempfile

import jaxtyping

jaxtyping.install_import_hook("papd", "beartype.beartype")

# Compiled programs are shared by the tests of a run and its worker processes, not with the user's own cache.
os.environ.setdefault("PAPD_CACHE_DIR", os.path.join(tempfile.gettempdir(), "papd-test-cache"))

# Whichever test imports Ray first: its clusters are on 127.0.0.1.
from papd.runs.sweeps.cluster import keep_to_loopback  # noqa: E402

keep_to_loopback()

import jax  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")
