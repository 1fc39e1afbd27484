"""The adaptive rate in other training loops."""
