"""The comparison as JSON, JUnit, HTML and a picture: all of it, in order, and nothing from data as markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from fluxctl.parity.comparison import compare, save
from fluxctl.parity.junit import junit
from fluxctl.parity.ladder import PairVerdict
from fluxctl.parity.page import page
from fluxctl.parity.pairing import named_pair
from fluxctl.parity.registry import STAGE_TITLES, all_rungs
from fluxctl.parity.result import Options, Status
from fluxctl.parity.sketch import sketch
from fluxctl.parity.svg import picture
from fluxctl.types import Mode

EVIL = "<script>alert('x')</script>&\"\x01"


@pytest.fixture
def compared(tmp_path, make_run, make_config):
    """Compare a real run with a simulated one that was edited."""

    def run(edit=None, real_edit=None, options=None, baseline="fwdllm", rungs=None):
        folder = tmp_path / "runs"
        for mode, change in ((Mode.REAL, real_edit), (Mode.SIM, edit)):
            make_run(folder / f"run-{mode.value}", mode, change, make_config(mode, baseline=baseline))
        pair = named_pair(str(folder / "run-real"), str(folder / "run-sim"), folder)
        return compare(pair, options or Options(), rungs or all_rungs(), folder)

    return run


def reversed_cohort(event):
    if event["event"] == "agg_round" and event["cycle"] == 20:
        return event | {"contributing_trainers": event["contributing_trainers"][::-1]}
    return event


def other_model(event):
    if event["event"] == "agg_round" and event["cycle"] > 40:
        return event | {"model_checksum": "ffff"}
    return event


class Page(HTMLParser):
    """Collects tags and text; complains of tags that are not closed."""

    VOID = frozenset({"meta", "br", "line", "circle", "polyline"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text, self.links = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_a_pass_says_in_one_sentence_that_the_simulation_can_be_trusted(compared) -> None:
    found = compared()
    assert found.verdict is PairVerdict.PASS
    assert found.headline().startswith("The simulation can be trusted: ")
    assert "over 30 bins" in found.headline()
    assert found.causes() == []


@pytest.mark.feature("D0c", "F18")
def test_a_failure_names_its_cause_in_the_rungs_own_words(compared) -> None:
    found = compared(other_model)
    assert found.verdict is PairVerdict.FAIL
    checksum = next(rung for rung in all_rungs() if rung.name == "model_checksum")
    assert found.headline() == "The simulation cannot be trusted: 1 rung fails over 30 bins, from one cause."
    assert found.causes()[0].startswith(f"{checksum.broken} [model_checksum: ")


def test_part_of_the_ladder_claims_no_more_than_that(compared) -> None:
    found = compared(rungs=[rung for rung in all_rungs() if rung.name == "model_checksum"])
    assert found.headline() == "The runs agree where they were compared: 1 rungs agree over 30 bins, none fails."


def test_without_clocks_it_is_the_decisions_that_agree(compared) -> None:
    def slow(event):
        if event["event"] == "agg_round":
            event["wall"]["intrinsic_span_s"] *= 3
        return event

    assert compared(real_edit=slow).verdict is PairVerdict.FAIL


@pytest.mark.feature("F13")
def test_logical_parity_does_not_look_at_clocks(compared) -> None:
    def slow(event):
        if event["event"] == "agg_round":
            event["wall"]["intrinsic_span_s"] *= 3
        return event

    found = compared(real_edit=slow, options=Options(strip_time=True))
    assert found.verdict is PairVerdict.PASS
    assert found.headline().startswith("The runs decide the same, clocks left out")


@pytest.mark.feature("A29")
def test_an_inadmissible_real_run_is_the_first_thing_that_is_said(compared) -> None:
    def crowded(event):
        return event | {"in_flight": 1} if event["event"] == "selection" and event["t_ns"] > 0 else event

    found = compared(real_edit=crowded)
    assert found.verdict is PairVerdict.FAIL
    assert "broke its own rules" in found.headline()
    assert found.causes()[0].startswith("real run: 6 clients were in flight")
    assert ET.fromstring(junit([found])).find(".//failure[@type='INADMISSIBLE']") is not None


def test_the_result_is_kept_in_the_left_run_as_plain_json(compared) -> None:
    found = compared(reversed_cohort)
    path = save(found)
    assert path.name == "run-sim.json"
    assert path.parent == found.pair.left.folder.path / "parity"
    data = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert {"baseline", "left", "right", "verdict", "counts", "rungs"} <= set(data)
    assert len(data["rungs"]) == len(all_rungs())
    fields = {"id", "short", "name", "stage", "tier", "status", "value", "threshold", "n", "cause", "message"}
    for row in data["rungs"]:
        assert fields <= set(row)
        assert (row["cause"] is not None) == (row["status"] == "FAIL")
    assert sum(data["counts"].values()) == len(data["rungs"])


@pytest.mark.feature("F18")
def test_junit_has_a_case_a_rung_and_counts_what_it_holds(compared) -> None:
    found = compared(other_model, baseline=EVIL)
    suites = ET.fromstring(junit([found, found]))
    assert len(suites) == 2
    suite = suites[0]
    assert len(suite) == len(all_rungs()) == int(suite.get("tests"))
    assert len(suite.findall(".//failure")) == int(suite.get("failures")) == found.ladder.counts[Status.FAIL]
    counts = found.ladder.counts
    assert len(suite.findall(".//skipped")) == int(suite.get("skipped"))
    assert int(suite.get("skipped")) == counts[Status.SKIP] + counts[Status.INCONCLUSIVE]
    assert "<script>" in suite.get("name")
    assert "\x01" not in suite.get("name")


@pytest.mark.feature("F18")
def test_the_page_has_every_rung_works_offline_and_holds_no_foreign_markup(compared) -> None:
    found = compared(lambda event: other_model(reversed_cohort(event)), baseline=EVIL)
    text = page([found])
    parsed = Page(text)
    assert "script" not in parsed.tags
    assert all(link.startswith("#") for link in parsed.links)
    assert "http" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    assert parsed.tags.count("svg") == 3
    shown = " ".join(parsed.text)
    assert EVIL in shown
    for rung in all_rungs():
        assert rung.name in shown
    for root in found.ladder.roots:
        assert root.rung.broken in shown
    for title in STAGE_TITLES.values():
        assert title in shown
    assert parsed.tags.count("details") == len({rung.stage for rung in all_rungs()})
    assert "noise" in shown


def test_the_sketch_shows_both_runs_and_where_they_part(pair) -> None:
    real, sim = pair(right=reversed_cohort)
    drawn = sketch(real, sim)
    assert drawn.first_difference == 20 * 5
    assert drawn.accuracy[0] == drawn.accuracy[1]
    assert len(drawn.accuracy[0][0]) == 31
    assert drawn.order[0][0][0] <= drawn.first_difference + 1 <= drawn.order[0][0][-1]
    assert drawn.order[0] != drawn.order[1]
    assert sketch(real, real).first_difference is None


def test_long_runs_are_thinned_but_keep_their_ends(pair) -> None:
    real, sim = pair(num_bins=600)
    (x, y), _ = sketch(real, sim).accuracy
    assert len(x) == len(y) == 400
    assert x == sorted(x)
    assert (y[0], y[-1]) == (
        real["agg_eval"].numbers("test_accuracy")[0],
        real["agg_eval"].numbers("test_accuracy")[-1],
    )


@pytest.mark.parametrize("kind", ["agg_eval", "contributing_trainers"])
def test_a_picture_of_runs_that_lack_something_says_so(pair, kind) -> None:
    def lacking(event):
        return None if event["event"] == kind else {name: of for name, of in event.items() if name != kind}

    assert "neither run has such events" in picture(sketch(*pair(left=lacking, right=lacking)))
    assert "neither" not in picture(sketch(*pair(right=lacking)))


def test_notes_tell_of_damaged_lines(compared, tmp_path) -> None:
    found = compared()
    events = found.pair.right.events
    events.write_bytes(events.read_bytes()[:-9])
    again = compare(found.pair, Options(), all_rungs(), tmp_path / "runs")
    assert any("torn last line" in note for note in again.notes)
    assert again.verdict is PairVerdict.PASS
