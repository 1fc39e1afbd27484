"""How a policy improves: PPO-Lagrangian and DDPG-Lagrangian under an adaptive rate."""
