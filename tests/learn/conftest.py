"""A tiny encoder, its features and its learner, built once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from fluxctl.config.model import ModelConfig, StepConfig
from fluxctl.learn.features import FeatureSet
from fluxctl.learn.learner import Learner, StepRequest
from fluxctl.learn.model import Encoder, load_encoder
from fluxctl.learn.split import Prefix, Suffix, split_encoder
from fluxctl.world.seeds import stream

NUM_LABELS = 4
NUM_TEXTS = 40


@dataclass(frozen=True)
class Lab:
    """Everything that a test of the learner needs, for one choice of adapters."""

    encoder: Encoder
    prefix: Prefix
    suffix: Suffix
    token_ids: Tensor
    lengths: Tensor
    features: FeatureSet

    def learner(self, **step: object) -> Learner:
        return Learner(self.suffix, self.features, self.features, StepConfig.model_validate(step))

    def params(self, scale: float = 0.1) -> Tensor:
        """A point in general position: no zero up-projections."""
        values = stream(3, "test-params").normals(self.suffix.layout.num_params)
        return torch.from_numpy(values) * scale

    def request(self, *, samples: tuple[int, ...] = tuple(range(8)), client: int = 0, guide: Tensor | None = None):
        source = stream(0, "tangent", client=client, version=0, iteration=0, attempt=0)
        return StepRequest(self.params(), samples, source, guide)

    def mean_loss(self, params: Tensor, samples: tuple[int, ...]) -> Tensor:
        """The loss through the whole uncached model: differentiable, the oracle of every estimator."""
        chosen = list(samples)
        logits = self.encoder.logits(params.unsqueeze(0), self.token_ids[chosen], self.lengths[chosen])[0]
        return torch.nn.functional.cross_entropy(logits, self.features.labels[chosen])

    def gradient(self, params: Tensor, samples: tuple[int, ...]) -> Tensor:
        leaf = params.clone().requires_grad_(True)
        self.mean_loss(leaf, samples).backward()
        assert leaf.grad is not None
        return leaf.grad


def build_lab(blocks: tuple[int, ...]) -> Lab:
    generator = np.random.default_rng(5)
    lengths = torch.from_numpy(generator.integers(3, 12, NUM_TEXTS))
    token_ids = torch.from_numpy(generator.integers(1, 512, (NUM_TEXTS, int(lengths.max()))))
    token_ids[torch.arange(token_ids.shape[1]) >= lengths[:, None]] = 0
    labels = generator.integers(0, NUM_LABELS, NUM_TEXTS).tolist()
    encoder = load_encoder(ModelConfig(name="tiny", adapter_blocks=blocks, adapter_dim=4), NUM_LABELS, None)
    prefix, suffix = split_encoder(encoder)
    features = FeatureSet.of(prefix.encode(token_ids, lengths), labels)
    return Lab(encoder, prefix, suffix, token_ids, lengths, features)


ADAPTERS = {"head": (), "last": (-1,), "first": (0,), "both": (0, 1)}


@pytest.fixture(scope="session")
def labs() -> Callable[[str], Lab]:
    torch.set_num_threads(1)
    built: dict[str, Lab] = {}

    def get(name: str) -> Lab:
        if name not in built:
            built[name] = build_lab(ADAPTERS[name])
        return built[name]

    return get


@pytest.fixture(params=sorted(ADAPTERS))
def lab(request: pytest.FixtureRequest, labs: Callable[[str], Lab]) -> Lab:
    """Each choice of adapters in turn."""
    return labs(request.param)
