"""JAX twins of Bullet-Safety-Gym, calibrated against it."""
