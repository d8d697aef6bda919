"""Every shipped run set passes the gate."""

import pytest

from fluxctl.commands._gate import pass_gate
from fluxctl.commands._request import Request, make_plan
from fluxctl.config.presets import preset_names
from fluxctl.gate.checks import Level


@pytest.mark.feature("G3", "E17")
@pytest.mark.parametrize("name", preset_names("run_sets"))
def test_nothing_blocks_a_shipped_run_set(name):
    request = Request(run_set=name)
    gate = pass_gate(make_plan(request), request)
    assert [finding for finding in gate.findings if finding.level is Level.BLOCK] == []
    assert all(case.data is not None and case.world is not None for case in gate.cases)


@pytest.mark.feature("G3", "E17")
@pytest.mark.parametrize("name", preset_names("baselines"))
def test_nothing_blocks_a_shipped_baseline(name):
    request = Request(only=[name])
    assert not pass_gate(make_plan(request), request).is_blocked


@pytest.mark.feature("G3", "E17")
@pytest.mark.parametrize("name", preset_names("traces"))
def test_main_can_run_under_every_shipped_trace(name):
    request = Request(run_set="main", sets=[f"availability.trace={name}"])
    assert not pass_gate(make_plan(request), request).is_blocked
