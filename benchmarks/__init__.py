"""Measurements that are no tests: each module is a command."""
