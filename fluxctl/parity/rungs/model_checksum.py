"""Whether the models are the same, bit for bit, at every commit."""

from __future__ import annotations

from fluxctl.parity.bounds import no_rows
from fluxctl.parity.cohorts import checksum_of
from fluxctl.parity.horizon import windows_to_the_end
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import Window, windows
from fluxctl.types import JSON


@rung(
    "model_checksum",
    "model_checksum",
    "model_checksum",
    stage="8",
    tier=Tier.EXACT,
    role=Role.EMERGENT,
    question="Are the trainable weights the same, bit for bit, after every commit?",
    broken="The models differ: whatever is measured on them is measured on another model.",
    needs=("D61",),
)
def model_checksum(left: Observed, right: Observed, options: Options) -> Finding:
    """Hashes of the trainable weights after each commit, to the end or to the engine time that both have reached."""
    first, second = (windows if options.strip_time else windows_to_the_end)(left, right, options)
    hashes_1, hashes_2 = _checksums(first), _checksums(second)
    num = max(len(hashes_1), len(hashes_2))
    if not num:
        return no_rows("no bin was committed")
    pairs = list(zip(hashes_1, hashes_2, strict=False))
    differing = [index for index, (hash_1, hash_2) in enumerate(pairs) if hash_1 != hash_2 or hash_1 is None]
    num_same = len(pairs) - len(differing)
    message = f"{num_same} of {num} commits left the same model"
    detail: dict[str, JSON] = {"num_commits": {w.run.label: w.num_units for w in (first, second)}}
    if differing:
        at = differing[0]
        message += f"; the first that did not is commit {at + 1}"
        detail["first_difference"] = {"commit": at + 1, first.run.label: hashes_1[at], second.run.label: hashes_2[at]}
    return Finding(
        Status.PASS if num_same == num else Status.FAIL,
        num_same / num,
        "= 1",
        min(len(hashes_1), len(hashes_2)),
        message,
        detail,
    )


def _checksums(window: Window) -> list[str | None]:
    """Hash after each commit of a window; None where it was not recorded.

    Raises:
        AbsentField: If no cycle carries one.
    """
    window.run.cycles.labels("model_checksum")
    rows = window.run.is_commit.nonzero()[0][: window.num_units]
    return [checksum_of(window.run, row) for row in rows.tolist()]
