"""How good a model is on the test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from fluxctl.learn.points import Points
from fluxctl.learn.split import Batch, Suffix


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation.

    Attributes:
        accuracy: Share of texts whose largest logit is their class; ties go to the lowest class.
        loss: Mean cross-entropy in nats.
        mcc: Multi-class Matthews correlation; 0 when the model predicts one class only.
        predicted_counts: How often each class was predicted.
        label_counts: How often each class occurs.
        num_samples: Number of texts.
    """

    accuracy: float
    loss: float
    mcc: float
    predicted_counts: tuple[int, ...]
    label_counts: tuple[int, ...]
    num_samples: int


def evaluate(suffix: Suffix, params: Tensor, batches: Sequence[Batch]) -> Evaluation:
    """Evaluate one parameter vector.

    Args:
        suffix: What to evaluate.
        params: Shape ``(d,)``.
        batches: The test set in pieces, each small enough for the processor's cache.
    """
    with torch.inference_mode():
        points = Points(params.clone().unsqueeze(0))  # into aligned memory, see the package docstring
        logits = torch.cat([suffix.logits(points, batch)[0] for batch in batches])
        labels = torch.cat([batch.labels for batch in batches])
        losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
        pairs = labels * suffix.num_labels + logits.argmax(dim=1)
        confusion = torch.bincount(pairs, minlength=suffix.num_labels**2).view(suffix.num_labels, -1)
        return Evaluation(
            accuracy=int(confusion.trace()) / len(labels),
            loss=float(losses.mean(dtype=torch.float64)),
            mcc=matthews(confusion),
            predicted_counts=tuple(confusion.sum(dim=0).tolist()),
            label_counts=tuple(confusion.sum(dim=1).tolist()),
            num_samples=len(labels),
        )


def matthews(confusion: Tensor) -> float:
    """Multi-class Matthews correlation of a confusion matrix.

    Args:
        confusion: Counts, rows are true classes and columns predicted ones, shape ``(C, C)``, int64.

    Returns:
        Between -1 and 1; 0 where it is not defined (one class only, on either side).

    Source:
        Gorodkin, Comparing two K-category assignments by a K-category correlation coefficient, 2004.
    """
    true, predicted = confusion.sum(dim=1).tolist(), confusion.sum(dim=0).tolist()
    total, correct = sum(true), int(confusion.trace())
    spread_true = total**2 - sum(count**2 for count in true)
    spread_predicted = total**2 - sum(count**2 for count in predicted)
    if spread_true == 0 or spread_predicted == 0:
        return 0.0
    covariance = correct * total - sum(t * p for t, p in zip(true, predicted, strict=True))
    return float(covariance / sqrt(spread_true * spread_predicted))
