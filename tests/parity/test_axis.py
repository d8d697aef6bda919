"""The axis of progress, and the fixtures of all rungs."""

import re
from pathlib import Path

import pytest

from fluxctl.parity.registry import all_rungs
from fluxctl.types import Mode


@pytest.mark.feature("D0d")
def test_progress_is_counted_in_bins_where_there_are_bins_and_else_in_rounds(tmp_path, make_run, observe):
    def without_cadence(event):
        gone = ("commit_reason", "cycle_bin", "cycle_iteration")
        return {name: value for name, value in event.items() if name not in gone}

    with_bins = observe(make_run(tmp_path / "bins"), Mode.SIM)
    with_rounds = observe(make_run(tmp_path / "rounds", edit=without_cadence), Mode.SIM)
    assert with_bins.has_cadence
    assert not with_rounds.has_cadence
    assert with_bins.num_units == int((with_bins.cycles.labels("commit_reason").codes >= 0).sum()) == 30
    assert with_rounds.num_units == len(with_rounds.cycles) == 60  # every cycle is a round of its own
    assert with_bins.unit_of_cycle.tolist() == [cycle // 2 for cycle in range(60)]  # by commits, not by bin number


@pytest.mark.feature("G4")
def test_every_rung_has_a_fixture_that_passes_and_one_that_is_broken(twins):
    text = "".join(path.read_text() for path in (Path(__file__).parent / "rungs").glob("test_*.py"))
    marked = set(re.findall(r'feature\("(D\d+)"', text)) | set(re.findall(r'"(D\d+)"[,)]', text))
    assert {rung.id for rung in all_rungs()} - marked == {"model_checksum"}
    assert '"model_checksum"' in text
