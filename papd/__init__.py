"""papd: adaptive primal-dual safe reinforcement learning. The policy's learning rate follows the Lagrange multiplier."""

__version__ = "0.1.0"
