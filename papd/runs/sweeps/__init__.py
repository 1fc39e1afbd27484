"""What a sweep is made of; :mod:`papd.runs.sweep` is the door."""
