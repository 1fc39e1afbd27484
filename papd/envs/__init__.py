"""Where transitions come from: JAX environments, twins of Bullet-Safety-Gym, and worker processes."""
