"""What a person reads: evaluations, statistics, figures, reports."""
