"""The adaptive rate in other training loops. Each module needs its own framework and no other.

``papd.integrations.optax`` is part of papd; ``.torch`` needs ``papd[torch]``, ``.sb3`` needs ``papd[sb3]``.
"""
