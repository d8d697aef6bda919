"""The statistics of the ladder: distances between samples, with an effect size beside every p-value.

Long runs make every test significant, so rungs are judged by sizes of effects (D, relative differences), and p-values
are told beside them. What is constant on both sides is compared as a constant, because a test of distributions says
nothing about it. Missing and infinite numbers are left out of every sample. This module must not read events.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from fluxctl.parity.result import MIN_SAMPLES, Finding, Status
from fluxctl.types import JSON
from fluxctl.world.seeds import Stream, stream

Sample: TypeAlias = npt.ArrayLike
_Floats: TypeAlias = npt.NDArray[np.float64]
_EXACT_MAX: Final = 1000  # samples per side up to which the exact p-value is worth its quadratic time
_RESAMPLES: Final = 1000
_SAME: Final = 1e-9  # relative spread within which a sample is one number


@dataclass(frozen=True, slots=True)
class KsResult:
    """Two-sample Kolmogorov-Smirnov test.

    Attributes:
        d: Largest distance between the two distribution functions, 0 to 1: the size of the effect.
        p: Probability of a distance at least as large if both samples had one continuous distribution; conservative
            where values are tied.
        n: Samples on the smaller side.
        is_point_mass: Both samples are constant and equal, so that the test says nothing and they agree.
    """

    d: float
    p: float
    n: int
    is_point_mass: bool


@dataclass(frozen=True, slots=True)
class TostResult:
    """Two one-sided tests: are two means equal within a margin?

    Attributes:
        difference: Left mean minus right mean.
        relative: Its size over the larger magnitude of the two means.
        low: Lower end of the 90 % interval of the difference.
        high: Its upper end.
        p: The larger of both one-sided p-values; below 0.05 the means are equivalent.
        is_equivalent: Whether they are.
    """

    difference: float
    relative: float
    low: float
    high: float
    p: float
    is_equivalent: bool


def ks(left: Sample, right: Sample) -> KsResult:
    """Compare two samples: exact p-value up to 1,000 values a side, asymptotic beyond.

    Args:
        left: Values, shape ``(n,)``; nan is left out.
        right: Values, shape ``(m,)``.

    Raises:
        ValueError: If a sample is empty.

    Source:
        Hodges, The significance probability of the Smirnov two-sample test, Arkiv foer Matematik 3, 1958.
    """
    one, other = _finite(left), _finite(right)
    if not len(one) or not len(other):
        raise ValueError("a sample is empty")
    n = min(len(one), len(other))
    if _is_one_number(np.concatenate((one, other))):
        return KsResult(0.0, 1.0, n, True)
    is_small = max(len(one), len(other)) <= _EXACT_MAX
    with warnings.catch_warnings():  # some exact p-values cannot be had in floating point; scipy says so and goes on
        warnings.simplefilter("ignore", RuntimeWarning)
        found = stats.ks_2samp(one, other, method="exact" if is_small else "asymp")
    return KsResult(float(found.statistic), float(found.pvalue), n, False)


def grid_ks(left: Sample, right: Sample, step: float = 1.0) -> KsResult:
    """Compare two samples on a grid, so that less than half a step between two values is no difference.

    Args:
        left: Counts, or values to be rounded to multiples of ``step``; shape ``(n,)``.
        right: The same of the other run, shape ``(m,)``.
        step: Distance of the grid's points.

    Raises:
        ValueError: If a sample is empty.
    """
    return ks(np.rint(_finite(left) / step) * step, np.rint(_finite(right) / step) * step)


def tost(left: Sample, right: Sample, margin: float = 0.1) -> TostResult:
    """Are the means equivalent, that is, within ``margin`` of the larger one with 95 % confidence?

    Args:
        left: Values, shape ``(n,)``.
        right: Values, shape ``(m,)``.
        margin: Largest difference that does not matter, relative to the larger magnitude of both means.

    Raises:
        ValueError: If a sample is empty.

    Source:
        Schuirmann, A comparison of the two one-sided tests procedure and the power approach, J. Pharmacokinetics
        15, 1987; degrees of freedom after Welch, 1947.
    """
    one, other = _finite(left), _finite(right)
    if not len(one) or not len(other):
        raise ValueError("a sample is empty")
    means = float(one.mean()), float(other.mean())
    difference = means[0] - means[1]
    bound = margin * max(map(abs, means))
    parts = [_variance(sample) / len(sample) for sample in (one, other)]
    error = float(np.sqrt(sum(parts)))
    if error <= _SAME * max(map(abs, means)):  # constants: there is nothing to be unsure about
        is_equal = abs(difference) <= bound
        return TostResult(difference, relative(*means), difference, difference, 0.0 if is_equal else 1.0, is_equal)
    freedom = sum(parts) ** 2 / sum(
        part**2 / max(len(sample) - 1, 1) for part, sample in zip(parts, (one, other), strict=True)
    )
    p = max(float(special.stdtr(freedom, (sign * difference - bound) / error)) for sign in (1.0, -1.0))
    half = float(special.stdtrit(freedom, 0.95)) * error
    return TostResult(difference, relative(*means), difference - half, difference + half, p, p < 0.05)


def relative(left: float, right: float) -> float:
    """Difference of two numbers over the larger magnitude, 0 to 2; 0 if both are 0.

    Symmetric, so it does not matter which run is called left. Of equal infinities it is 0, of nan it is nan.
    """
    if left == right:
        return 0.0
    return abs(left - right) / max(abs(left), abs(right)) if np.isfinite([left, right]).all() else abs(left - right)


def tvd(p: Sample | Mapping[str, float], q: Sample | Mapping[str, float]) -> float:
    """Total variation distance of two distributions, 0 to 1.

    Args:
        p: Weights by name, or in the order of ``q``, shape ``(k,)``; they are scaled to sum to 1.
        q: The same of the other side.

    Returns:
        Half the sum of absolute differences; 0 if neither side has any weight, 1 if one has none.

    Raises:
        ValueError: If weights are negative, or the shapes differ.
    """
    if isinstance(p, Mapping) and isinstance(q, Mapping):
        names = sorted({*p, *q})
        p, q = [p.get(name, 0.0) for name in names], [q.get(name, 0.0) for name in names]
    one, other = np.asarray(p, np.float64), np.asarray(q, np.float64)
    if one.shape != other.shape or (one < 0).any() or (other < 0).any():
        raise ValueError("two lists of weights of one length are needed")
    sums = float(one.sum()), float(other.sum())
    if not all(sums):
        return float(any(sums))
    return float(np.abs(one / sums[0] - other / sums[1]).sum() / 2)


def spearman(a: Sample, b: Sample) -> float:
    """Rank correlation of paired values, -1 to 1; pairs with a nan are left out.

    Two constants agree (1), a constant and something that varies do not (0), and one pair is always in order (1).

    Raises:
        ValueError: If the lengths differ.
    """
    one, other = np.asarray(a, np.float64).ravel(), np.asarray(b, np.float64).ravel()
    if one.shape != other.shape:
        raise ValueError(f"{len(one)} values cannot be paired with {len(other)}")
    kept = ~(np.isnan(one) | np.isnan(other))
    ranks = [stats.rankdata(values[kept]) for values in (one, other)]
    spreads = [len(rank) > 0 and np.ptp(rank) > 0 for rank in ranks]
    if not all(spreads):
        return float(not any(spreads))
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def block_bootstrap_mean(series: Sample, source: Stream | int = 0, block: int | None = None) -> tuple[float, float]:
    """95 % interval of the mean of a series whose neighbours are alike.

    Args:
        series: Values in their order, shape ``(n,)``; nan is left out.
        source: Where the resampling draws from; an integer names a stream by that seed.
        block: Length of the blocks that keep neighbours together; None = the cube root of n.

    Returns:
        The 2.5 % and the 97.5 % quantile of the means of 1,000 resampled series.

    Raises:
        ValueError: If the series is empty.

    Source:
        Politis and Romano, A circular block-resampling procedure for stationary data, 1992.
    """
    values = _finite(series)
    n = len(values)
    if not n:
        raise ValueError("the series is empty")
    length = min(max(block if block is not None else round(n ** (1 / 3)), 1), n)
    draws = source if isinstance(source, Stream) else stream(source, "block-bootstrap")
    starts = draws.generator().integers(0, n, size=(_RESAMPLES, -(-n // length)))
    sums = np.concatenate(((0.0,), np.cumsum(np.concatenate((values, values[:length])))))
    means = (sums[starts + length] - sums[starts]).mean(axis=1) / length
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def judged_ks(
    left: Sample,
    right: Sample,
    max_d: float,
    message: str,
    *,
    step: float | None = None,
    negligible: float | None = None,
    max_relative: float | None = None,
    max_difference: float | None = None,
    min_samples: int = MIN_SAMPLES,
    unit: str = "",
) -> Finding:
    """Judge a rung that asks whether two samples have one distribution.

    Args:
        left: Values, shape ``(n,)``; nan is left out.
        right: Values, shape ``(m,)``.
        max_d: Largest D that passes.
        message: What is compared, for example ``commit lag``; the numbers are added.
        step: Compare on a grid of this step, see :func:`grid_ks`.
        negligible: Means that are both at most this are equal, whatever their distributions; in the values' unit.
        max_relative: The means must also agree within this relative difference.
        max_difference: The means must also agree within this, in the values' unit.
        min_samples: Below this on either side the answer is INCONCLUSIVE.
        unit: Unit of the values, for the message.

    Returns:
        PASS or FAIL with D as its value; INCONCLUSIVE below ``min_samples``; SKIP if both samples are empty.
    """
    one, other = _finite(left), _finite(right)
    n = min(len(one), len(other))
    limits = [f"<= {max_d:g}"]
    limits += [] if max_relative is None else [f"mean rel <= {max_relative:g}"]
    limits += [] if max_difference is None else [f"mean diff <= {max_difference:g}{unit and ' ' + unit}"]
    threshold = ", ".join(limits)
    if not len(one) and not len(other):
        return Finding(Status.SKIP, None, threshold, 0, f"{message}: no samples in either run")
    if n < min_samples:
        told = f"{message}: {len(one)} and {len(other)} samples, at least {min_samples} are needed on each side"
        return Finding(Status.INCONCLUSIVE, None, threshold, n, told, {"min_samples": min_samples})
    found = ks(one, other) if step is None else grid_ks(one, other, step)
    means = float(one.mean()), float(other.mean())
    equivalence = tost(one, other)
    detail: dict[str, JSON] = {
        "p": found.p,
        "mean_left": means[0],
        "mean_right": means[1],
        "mean_relative": relative(*means),
        "tost_p": equivalence.p,
        "is_equivalent": equivalence.is_equivalent,
    }
    told = f"{message}: D = {found.d:.3g} (p = {found.p:.2g}), means {_pair(*means, unit)}"
    if found.is_point_mass:
        return Finding(Status.PASS, 0.0, threshold, n, f"{message}: both constant, {one[0]:.4g}{_of(unit)}", detail)
    if negligible is not None and max(map(abs, means)) <= negligible:
        told += f", both at most {negligible:g}{_of(unit)}"
        return Finding(Status.PASS, found.d, threshold, n, told, detail)
    is_far = max_difference is not None and abs(means[0] - means[1]) > max_difference
    is_off = max_relative is not None and relative(*means) > max_relative
    status = Status.FAIL if found.d > max_d or is_off or is_far else Status.PASS
    return Finding(status, found.d, threshold, n, told, detail)


def _pair(left: float, right: float, unit: str) -> str:
    return f"{left:.4g} and {right:.4g}{_of(unit)}"


def _of(unit: str) -> str:
    return f" {unit}" if unit else ""


def _finite(sample: Sample) -> _Floats:
    values = np.asarray(sample, np.float64).ravel()
    return values[np.isfinite(values)]


def _is_one_number(values: _Floats) -> bool:
    low, high = float(values.min()), float(values.max())
    return low == high or high - low <= _SAME * max(abs(low), abs(high))


def _variance(sample: _Floats) -> float:
    return float(sample.var(ddof=1)) if len(sample) > 1 else 0.0
