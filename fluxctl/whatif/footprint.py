"""What a run would hold in memory, from sizes alone."""

from __future__ import annotations

from typing import Final

from fluxctl.config.model import Config

_FLOAT: Final = 4  # bytes of a float32


def memory_bytes(config: Config, num_params: int, width: int, updates_per_bin: int) -> dict[str, int]:
    """Bytes by what takes them; upper bounds, the interpreter and its libraries not counted.

    Args:
        config: The run.
        num_params: Length d of the trainable vector.
        width: Hidden size of the model.
        updates_per_bin: Updates that are kept until a bin commits.

    Returns:
        ``features``: cached features of all texts, each as long as ``model.max_len`` allows. ``pool``: gradients of
        the open bin, in an array that grows by doubling. ``weights``: the vector at the server (current, best, last
        aggregate, encoded) and the versions that clients in flight still hold.
    """
    texts = len(config.data.classes) * (config.data.train_per_class + config.data.test_per_class)
    rows = texts * (config.model.max_len if config.model.adapter_blocks else 1)
    capacity = 16
    while capacity < updates_per_bin:
        capacity *= 2
    vectors = 4 + config.aggregation.concurrency
    return {
        "features": rows * width * _FLOAT,
        "pool": capacity * num_params * _FLOAT,
        "weights": vectors * num_params * _FLOAT,
    }
