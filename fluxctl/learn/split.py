"""Cut an encoder at its first trainable operation.

What lies before (:class:`Prefix`) gives the same result in every forward pass of a run, so it is computed once per
text and cached. What is left (:class:`Suffix`) is all that a forward pass of training costs. The cut may fall inside
a block: with an adapter on the last block's feed-forward output, five blocks and most of the sixth are in the prefix.

A suffix is rebuilt from saved tensors and metadata alone, so that a run on a warm cache never loads the language model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from fluxctl.learn.closed_form import AdapterTail
from fluxctl.learn.layout import ParamLayout
from fluxctl.learn.model import Embeddings, Encoder
from fluxctl.learn.packing import Packing
from fluxctl.learn.peft import Adapter, Head
from fluxctl.learn.points import Points
from fluxctl.learn.stages import Attention, FeedForward, Flow, OutputNorm, Pool, Stage

JSON: TypeAlias = bool | int | float | str | list["JSON"] | dict[str, "JSON"] | None

_KINDS: Final[dict[str, type[Any]]] = {
    stage.kind: stage for stage in (Attention, FeedForward, Adapter, OutputNorm, Pool, Head)
}
#: Rows are filled up to a multiple of this: matrix products of odd sizes are up to a fifth slower.
_ROW_MULTIPLE: Final = 16
#: Parameter vectors that pass through a transformer block together: bounds the memory of a step; more is not faster.
_ROWS_PER_BLOCK: Final = 2


@dataclass(frozen=True, slots=True)
class Batch:
    """A mini-batch, ready for any number of forward passes.

    Attributes:
        flow: The prefix's result, shape ``(num_tokens, width)`` each; sums are centred when the closed form is used.
        packing: Which token belongs to which text.
        variances: Of the centred sums, shape ``(num_tokens,)``; empty without the closed form.
        labels: Shape ``(num_samples,)``.
    """

    flow: Flow
    packing: Packing
    variances: Tensor
    labels: Tensor

    @property
    def num_bytes(self) -> int:
        """Memory of the features."""
        total = self.flow.total
        return self.flow.value.nbytes + (total.nbytes if total is not None else 0) + self.packing.average.nbytes


@dataclass(frozen=True)
class Prefix:
    """The frozen part: token ids to features.

    Attributes:
        split_point: Names the last frozen operation, for example ``block5.ffn_output`` or ``pooled``.
        width: Columns of the features.
    """

    embeddings: Embeddings
    stages: tuple[Stage, ...]
    split_point: str
    width: int

    @torch.no_grad()
    def encode(self, token_ids: Tensor, lengths: Tensor) -> list[Tensor]:
        """Compute features.

        Args:
            token_ids: Right-padded, shape ``(B, T)``, int64. Texts of similar length in one call waste least.
            lengths: Tokens of each text, shape ``(B,)``, int64.

        Returns:
            Per text its features, float32: ``(length, width)``, or ``(1, width)`` when the split is behind the pooling.
        """
        counts: list[int] = lengths.tolist()
        packing = Packing.of(counts, attention=True)
        flow = Flow(self.embeddings.apply(token_ids, lengths))
        nothing = Points(token_ids.new_empty((1, 0), dtype=torch.float32))
        for stage in self.stages:
            flow = stage.apply(flow, nothing, packing)
        rows = flow.value if flow.total is None else torch.cat([flow.value, flow.total], dim=1)
        return list(torch.split_with_sizes(rows, [1] * len(counts) if len(rows) == len(counts) else counts))


class Suffix:
    """The part with trainable operations, evaluated for many parameter vectors at once.

    Args:
        stages: From the first trainable stage to the head.
        closed_form: Whether to use :class:`AdapterTail` where it applies; False runs stage by stage.
    """

    def __init__(self, stages: Sequence[Stage], *, closed_form: bool = True) -> None:
        self.stages = tuple(stages)
        self.layout = ParamLayout.of(shape for stage in self.stages for shape in stage.shapes())
        self._tail = AdapterTail.match(self.stages) if closed_form else None
        self._is_split_in_block = isinstance(self.stages[0], Adapter)
        self._has_attention = any(isinstance(stage, Attention) for stage in self.stages)

    @property
    def num_labels(self) -> int:
        """Number of classes."""
        head = self.stages[-1]
        if not isinstance(head, Head):
            raise ValueError("the last stage of a suffix is its head")
        return head.labels

    def batch(self, rows: Tensor, lengths: Sequence[int], labels: Tensor) -> Batch:
        """Prepare a mini-batch.

        Args:
            rows: Features of its texts, shape ``(sum of lengths, feature width)``; may be taken over and changed.
            lengths: Rows of each text.
            labels: Shape ``(num_samples,)``, int64.
        """
        if self._tail is not None:
            spare = -len(rows) % _ROW_MULTIPLE
            flow, variances = self._tail.prepare(F.pad(rows, (0, 0, 0, spare)))
            return Batch(flow, Packing.of(lengths, attention=False, spare=spare), variances, labels)
        width = rows.shape[1] // 2
        flow = Flow(rows[:, :width], rows[:, width:]) if self._is_split_in_block else Flow(rows)
        return Batch(flow, Packing.of(lengths, attention=self._has_attention), rows.new_empty(0), labels)

    def logits(self, points: Points, batch: Batch) -> Tensor:
        """Logits of all points, shape ``(R, num_samples, labels)``."""
        if self._tail is not None:
            return self._tail.logits(batch.flow, batch.variances, points, batch.packing)
        if self._has_attention and points.num_points > _ROWS_PER_BLOCK:
            rows = points.expanded()
            starts = range(0, len(rows), _ROWS_PER_BLOCK)
            return torch.cat([self._staged(Points(rows[start : start + _ROWS_PER_BLOCK]), batch) for start in starts])
        return self._staged(points, batch)

    def _staged(self, points: Points, batch: Batch) -> Tensor:
        flow = batch.flow
        for stage in self.stages:
            flow = stage.apply(flow, points, batch.packing)
        return flow.value

    def __call__(self, params: Tensor, batch: Batch) -> Tensor:
        """Logits for parameter vectors ``(R, d)``, shape ``(R, num_samples, labels)``."""
        return self.logits(Points(params), batch)

    def losses(self, points: Points, batch: Batch) -> Tensor:
        """Cross-entropy in nats of every text at every point, shape ``(R, num_samples)``."""
        log_probs = F.log_softmax(self.logits(points, batch), dim=-1)
        labels = batch.labels.view(1, -1, 1).expand(len(log_probs), -1, -1)
        return log_probs.gather(-1, labels).squeeze(-1).neg()

    def state(self) -> tuple[dict[str, Tensor], dict[str, JSON]]:
        """Everything that :meth:`from_state` needs: frozen tensors by name, and JSON metadata."""
        arrays: dict[str, Tensor] = {}
        stages: list[JSON] = []
        for stage in self.stages:
            meta: dict[str, JSON] = {"kind": stage.kind}
            for field in fields(_KINDS[stage.kind]):
                value = getattr(stage, field.name)
                if isinstance(value, Tensor):
                    arrays[f"{stage.output}.{field.name}"] = value
                else:
                    meta[field.name] = value
            stages.append(meta)
        return arrays, {"stages": stages}

    @classmethod
    def from_state(cls, arrays: Mapping[str, Tensor], meta: Mapping[str, JSON]) -> Suffix:
        """Rebuild a suffix from what :meth:`state` gave.

        Raises:
            ValueError: If the metadata does not describe a suffix, or a tensor is missing.
        """
        entries = meta.get("stages")
        if not isinstance(entries, list):
            raise ValueError("suffix metadata has no list of stages")
        return cls([_stage_from(entry, arrays) for entry in entries])


def _stage_from(entry: JSON, arrays: Mapping[str, Tensor]) -> Stage:
    if not isinstance(entry, dict) or entry.get("kind") not in _KINDS:
        raise ValueError(f"not a stage of a suffix: {entry!r}")
    kind = _KINDS[str(entry["kind"])]
    values: dict[str, Any] = {}
    for field in fields(kind):
        name = f"{entry.get('output')}.{field.name}"
        if field.name in entry:
            values[field.name] = entry[field.name]
        elif name in arrays:
            values[field.name] = arrays[name]
        else:
            raise ValueError(f"saved suffix lacks '{name}'")
    stage: Stage = kind(**values)
    return stage


def split_encoder(encoder: Encoder) -> tuple[Prefix, Suffix]:
    """Cut an encoder right before its first stage with trainable parameters."""
    cut = next(index for index, stage in enumerate(encoder.stages) if stage.shapes())
    before = encoder.stages[:cut]
    is_in_block = isinstance(encoder.stages[cut], Adapter)
    prefix = Prefix(encoder.embeddings, before, before[-1].output, encoder.width * (2 if is_in_block else 1))
    return prefix, Suffix(encoder.stages[cut:])
