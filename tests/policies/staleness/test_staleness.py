"""Staleness policies: which stamps count, and as how old."""

from dataclasses import replace

import pytest

from fluxctl.errors import InvariantError
from fluxctl.policies.staleness import STALENESS, StalenessView

pytestmark = pytest.mark.feature("B7")

# Ten bins a round: version 23 is round 2, bin 3; its third iteration is open.
NOW = StalenessView(
    update_version=23, update_round=2, update_bin=3, update_iteration=2, version=23, round=2, bin=3, iteration=2
)
CASES = {
    "current": NOW,
    "earlier iteration of the bin": replace(NOW, update_iteration=0),
    "previous bin": replace(NOW, update_version=22, update_bin=2),
    "same bin of the previous round": replace(NOW, update_version=13, update_round=1),
    "first version": replace(NOW, update_version=0, update_round=0, update_bin=0, update_iteration=0),
}


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("exact", ["current"]),
        ("round_bin", ["current", "earlier iteration of the bin"]),
        ("accept", list(CASES)),
        ("downweight", list(CASES)),
    ],
)
def test_accepts_exactly_what_it_should(name, accepted):
    policy = STALENESS.build(name, {})
    assert [case for case, view in CASES.items() if policy.judge(view).accepted] == accepted


@pytest.mark.parametrize(
    ("case", "age"),
    [("current", 0), ("previous bin", 1), ("same bin of the previous round", 10), ("first version", 23)],
)
def test_downweight_counts_versions_and_accept_counts_nothing(case, age):
    assert STALENESS.build("downweight", {}).judge(CASES[case]).rate_staleness == age
    assert STALENESS.build("accept", {}).judge(CASES[case]).rate_staleness == 0


@pytest.mark.parametrize("name", ["exact", "round_bin", "accept", "downweight"])
@pytest.mark.parametrize("version", [24, -1, 10**13, -(10**13)])
def test_impossible_versions_are_a_bug_and_never_an_age(name, version):
    """Pitfall: an uninitialised version gave a staleness of 1e13."""
    with pytest.raises(InvariantError, match=f"update of model version {version} cannot exist at version 23"):
        STALENESS.build(name, {}).judge(replace(NOW, update_version=version))
