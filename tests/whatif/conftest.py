"""Configurations by dotted keys."""

import pytest
import torch

import fluxctl.policies  # noqa: F401 - registers every policy
from fluxctl.config.model import Config

DEFAULTS = {
    "model.name": "tiny",
    "clients.num_clients": 12,
    "aggregation.goal": 3,
    "aggregation.concurrency": 4,
    "delays.model": "uniform",
    "delays.low_s": 1.0,
    "delays.high_s": 10.0,
    "data.train_per_class": 60,
    "limits.max_bins": 6,
    "limits.max_runtime_s": 50_000.0,
}


@pytest.fixture(autouse=True)
def _one_torch_thread():
    torch.set_num_threads(1)


@pytest.fixture
def config_of():
    def make(**changes):
        data = {}
        for path, value in {**DEFAULTS, **{key.replace("__", "."): value for key, value in changes.items()}}.items():
            *owners, name = path.split(".")
            place = data
            for owner in owners:
                place = place.setdefault(owner, {})
            place[name] = value
        return Config.model_validate(data)

    return make
