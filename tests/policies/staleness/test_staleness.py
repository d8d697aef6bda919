"""Staleness policies: which stamps count, and as how old."""

from dataclasses import replace

import pytest

from fluxctl.errors import ConfigError, InvariantError
from fluxctl.policies.staleness import STALENESS, StalenessDecision, StalenessView

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


class TestClock:
    """Age in versions or in engine seconds."""

    @pytest.mark.feature("B5")
    @pytest.mark.parametrize(
        ("params", "age"),
        [
            ({}, 1),  # one version, whatever it took
            ({"clock": "versions"}, 1),
            ({"clock": "seconds"}, 1.5),  # 90 s at 60 s a version
            ({"clock": "seconds", "seconds_per_version": 30.0}, 3.0),
        ],
    )
    def test_downweight_counts_versions_or_seconds(self, params, age):
        view = replace(CASES["previous bin"], age_s=90.0)
        assert STALENESS.build("downweight", params).judge(view) == StalenessDecision(True, age)

    @pytest.mark.feature("B5")
    def test_a_current_update_has_an_age_in_seconds(self):
        policy = STALENESS.build("downweight", {"clock": "seconds"})
        assert policy.judge(replace(NOW, age_s=30.0)).rate_staleness == 0.5

    def test_impossible_versions_are_a_bug_on_either_clock(self):
        policy = STALENESS.build("downweight", {"clock": "seconds"})
        with pytest.raises(InvariantError):
            policy.judge(replace(NOW, update_version=24))

    @pytest.mark.parametrize("params", [{"clock": "hours"}, {"seconds_per_version": 0.0}])
    def test_bad_parameters_are_named(self, params):
        with pytest.raises(ConfigError, match=f"'downweight': parameter '{next(iter(params))}'"):
            STALENESS.build("downweight", params)
