"""A Ray cluster of several nodes on this machine, all addresses on 127.0.0.1: for measurements and for the tests."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from papd.runs.sweeps.cluster import keep_to_loopback

STORE_BYTES = 80 * 2**20
"""Of each node's object store; sweeps keep nothing there."""


@contextlib.contextmanager
def ray_nodes(count: int) -> Iterator[Any]:
    """A head without CPUs and ``count`` nodes of one, in ``cluster.worker_nodes``; this process is connected to it."""
    keep_to_loopback()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray._private.utils import get_ray_address_file
    from ray.cluster_utils import Cluster

    # Ray notes the cluster's address there, whatever its nodes' folder is, and does not make it.
    os.makedirs(os.path.dirname(get_ray_address_file(None)), exist_ok=True)
    temporary = tempfile.mkdtemp(prefix="papd-ray-", dir="/tmp")  # The paths of Ray's sockets must be short.
    common = {"node_ip_address": "127.0.0.1", "object_store_memory": STORE_BYTES, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**common, "num_cpus": 0, "temp_dir": temporary})
    try:
        for _ in range(count):
            cluster.add_node(**common, num_cpus=1)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(temporary, ignore_errors=True)
