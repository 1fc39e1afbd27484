"""What outlives the process: configurations, training runs, checkpoints, sweeps."""
