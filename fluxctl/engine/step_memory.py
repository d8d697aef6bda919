"""How much memory a client of this run needs for a step, by either method (B23), measured once before it trains.

The measurement has a learner and a stream of its own, so the run does not notice it: events and hash are the same with
and without.
"""

from __future__ import annotations

from collections.abc import Callable

from fluxctl.config.model import Config
from fluxctl.engine.prepare import Task
from fluxctl.learn.local_step import StepRequest
from fluxctl.types import JSON
from fluxctl.world.seeds import stream

_CLIENT, _BIN = 0, 0  # whose mini-batch it is


def measure_step_memory(config: Config, task: Task, say: Callable[[str], None]) -> dict[str, JSON]:
    """Count the peak bytes of one client's step, forward gradient and back-propagation of the same trainable set.

    Args:
        config: The run's configuration; a run that does not use forward gradients is compared with central differences.
        task: Model and data.
        say: Told why there is no measurement, where back-propagation does not fit this machine.

    Returns:
        Fields for ``run_meta``; empty when measuring is off or fails.
    """
    if not config.telemetry.step_memory:
        return {}
    step = config.step
    if step.estimator in ("backprop", "local_sgd"):
        step = step.model_copy(update={"estimator": "central_difference"})
    samples = task.shards.bin_samples(_CLIENT, _BIN)
    learner = task.learner.with_step(step)
    request = StepRequest(learner.initial_params(config.seed), samples, stream(config.seed, "step-memory"))
    try:
        found = learner.step_memory(request)
    except (RuntimeError, MemoryError) as error:  # torch's way to say that there is no room
        say(f"the memory of a step is not measured: {error}")
        return {}
    return {
        "num_samples": len(samples),
        "forward_memory_bytes": found.forward_gradient_bytes,
        "backprop_memory_bytes": found.backprop_bytes,
    }
