"""What every staleness policy must do, over everything registered."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.errors import InvariantError
from fluxctl.policies.staleness import STALENESS, StalenessView

pytestmark = pytest.mark.feature("B7")
SMALL = st.integers(0, 5)
VIEWS = st.builds(StalenessView, *[SMALL] * 8)


@pytest.mark.parametrize("name", STALENESS.names())
@given(view=VIEWS)
def test_an_age_lies_between_zero_and_the_version(name, view):
    policy = STALENESS.build(name, {})
    if view.update_version > view.version:
        with pytest.raises(InvariantError):
            policy.judge(view)
        return
    decision = policy.judge(view)
    assert 0 <= decision.rate_staleness <= view.version
    assert decision == policy.judge(view)


@pytest.mark.parametrize("name", STALENESS.names())
@given(place=st.tuples(*[SMALL] * 4))
def test_a_current_update_is_accepted_as_fresh(name, place):
    decision = STALENESS.build(name, {}).judge(StalenessView(*place, *place))
    assert decision.accepted
    assert decision.rate_staleness == 0


@pytest.mark.feature("B5")
@pytest.mark.parametrize("name", STALENESS.names())
@given(view=VIEWS.filter(lambda view: view.update_version <= view.version), age_s=st.floats(0, 1e9))
def test_seconds_decide_nothing_unless_asked_for(name, view, age_s):
    policy = STALENESS.build(name, {})
    assert policy.judge(replace(view, age_s=age_s)) == policy.judge(view)


@pytest.mark.parametrize("name", STALENESS.names())
def test_has_a_summary(name):
    assert len(STALENESS.entry(name).summary) > 10
