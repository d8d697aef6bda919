"""Every analysis answers for a run whose events end anywhere, as those of a crashed run do."""

import json

import pytest

from fluxctl.analyses.fairness import fairness
from fluxctl.analyses.partition import partition
from fluxctl.analyses.redundancy import redundancy
from fluxctl.analyses.sanity import sanity
from fluxctl.analyses.timing import timing
from fluxctl.analyses.to_target import to_target
from fluxctl.analyses.variance import variance
from fluxctl.errors import NothingToDoError
from fluxctl.telemetry.series import read_series


def COSTS(folder):
    return to_target([read_series(folder.path)])


ANALYSES = [
    variance,
    redundancy,
    partition,
    timing,
    sanity,
    lambda folder: fairness(read_series(folder.path)),
    COSTS,
]


@pytest.mark.parametrize("num_lines", [1, 2, 3, 5, 30, 60, 120])
def test_an_answer_in_words_and_json_with_figures_that_can_be_drawn(run_copy, num_lines):
    folder = run_copy()
    lines = folder.events.read_text().splitlines(keepends=True)
    folder.events.write_text("".join(lines[:num_lines]) + lines[num_lines][:20])
    for analyse in ANALYSES:
        if analyse is COSTS and not len(read_series(folder.path).evaluations):
            with pytest.raises(NothingToDoError, match="the run has no evaluation"):
                analyse(folder)
            continue
        analysis = analyse(folder)
        assert analysis.conclusion.endswith(".")
        json.dumps(analysis.to_json(), allow_nan=False)
        for grid in analysis.grids:
            assert all(len(row) == len(grid.measures) for row in grid.rows)
            assert all(text for index in range(len(grid.measures)) for text in grid.column_texts(index)) or grid.rows
        for chart in analysis.charts:
            assert all(len(point) == len(chart.fields) for point in chart.points)
            chart.draw()
