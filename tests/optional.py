"""Tests that need a package papd does not need: they run where it is found, and say so where it is not."""

import importlib.util
import os

import pytest

ALL = "PAPD_TEST_ALL"
"""Set where every optional part is installed (.ci/run): there a missing one is a failure, not a skip."""


def needs(package: str, extra: str) -> pytest.MarkDecorator:
    """Skips, by name, where ``package`` is not installed."""
    absent = importlib.util.find_spec(package) is None
    reason = f"{package} is not here (pip install 'papd[{extra}]'): these tests do not run"
    return pytest.mark.skipif(absent and ALL not in os.environ, reason=reason)
