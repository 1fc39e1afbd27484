"""What updates report: summed while they run, meaned for the metrics."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32


class Losses(eqx.Module):
    """Sums over updates, and how many there were; ``skipped`` ones met a gradient that is no number.

    DDPG has no KL and no entropy: they are NaN.
    """

    policy_loss: Float[Array, ""]
    critic_loss: Float[Array, ""]
    kl: Float[Array, ""]
    entropy: Float[Array, ""]
    updates: Int32[Array, ""]
    skipped: Int32[Array, ""]

    def means(self) -> "Losses":
        """The same, divided by the number of updates; NaN if there was none."""
        count = self.updates + self.skipped
        return Losses(
            policy_loss=self.policy_loss / count,
            critic_loss=self.critic_loss / count,
            kl=self.kl / count,
            entropy=self.entropy / count,
            updates=self.updates,
            skipped=self.skipped,
        )


def no_losses() -> Losses:
    """The sum over no update."""
    zero = jnp.float32(0)
    return Losses(zero, zero, zero, zero, jnp.int32(0), jnp.int32(0))
