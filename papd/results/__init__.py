"""What a person reads: evaluations, statistics, figures, reports."""

from papd.results.load import load

__all__ = ["load"]
