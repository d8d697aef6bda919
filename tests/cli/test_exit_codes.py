import re
from pathlib import Path

import pytest

from fluxctl.errors import ExitCode
from fluxctl.runs.records import EXIT_CODES

PAGE = (Path(__file__).parents[2] / "docs" / "exit-codes.md").read_text()
ROWS = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", PAGE, re.MULTILINE)


@pytest.mark.feature("G6")
def test_the_page_lists_every_exit_code():
    assert [(int(number), name) for number, name in ROWS] == [(int(code), code.name) for code in ExitCode]


@pytest.mark.feature("G6")
def test_the_page_lists_what_launch_answers_for_every_verdict():
    told = {
        verdict: int(code)
        for names, code in re.findall(r"^\| ([A-Z_]+(?:, [A-Z_]+)*) \| (\d+) \|$", PAGE, re.MULTILINE)
        for verdict in names.split(", ")
    }
    assert told == {verdict.value: int(code) for verdict, code in EXIT_CODES.items()}
