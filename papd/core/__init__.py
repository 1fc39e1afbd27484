"""The paper's mathematics: multipliers, rates and Algorithm 1. No environment, no network, no file."""
