"""Where transitions come from: JAX environments, twins of Bullet-Safety-Gym, and worker processes.

Nothing is imported here: a worker process imports ``papd.envs.workers`` and must not wait for JAX.
"""
