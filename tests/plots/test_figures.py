"""E1 to E5 from runs of every size: what they show is what the events say, and nothing is smoothed but one line."""

import csv
import io
import json
import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest
from scipy import stats

from fluxctl.plots.catalogue import EXPERIMENTS, draw
from fluxctl.plots.cut import Cut
from fluxctl.plots.e1 import smoothed
from fluxctl.plots.group import Options, make_groups
from fluxctl.plots.seeds import band, estimate
from fluxctl.runs.files import csv_text
from fluxctl.runs.index import list_runs
from fluxctl.telemetry.series import Axis, read_series

DEFAULTS = Options()
S = 1_000_000_000
HEADER = {"event": "header", "schema_version": 1, "identity": {"run": "r", "mode": "sim"}}
IDS = {
    "e1": ["e1_accuracy", "e1_loss"],
    "e2": ["e2_utilisation", "e2_aggregator"],
    "e3": ["e3_productivity"],
    "e4": ["e4_traffic", "e4_sizes"],
    "e5": ["e5_sessions", "e5_participation"],
}
MARKUP = "<script>alert('x')</script><b>&amp;"


@pytest.fixture
def run_of(tmp_path):
    """A run made of accuracies, one evaluation a minute and one update before each."""

    def make(accuracies, *, name="run", seed=0, rounds=None, baseline="fluxtune", tail=""):
        events = [{"event": "run_meta", "t_ns": 0, "seed": seed, "baseline": baseline, "condition": "c"}]
        for number, accuracy in enumerate(accuracies):
            at = number * 60 * S
            loss = 2.0 - accuracy
            if number:
                stamp = {"t_ns": at}
                events += [
                    {"event": "comm", **stamp, "direction": "down", "payload": "weights", "bytes": 1000},
                    {
                        "event": "trainer_round",
                        **stamp,
                        "client": number % 3,
                        "modelled_d_s": 30.0,
                        "wait_s": 45.0,
                        "forward_passes": 20,
                        "loss": loss,
                    },
                    {"event": "comm", **stamp, "direction": "up", "payload": "gradient", "bytes": 3000},
                    {
                        "event": "agg_round",
                        **stamp,
                        "round": 0 if rounds is None else rounds[number],
                        "cycle_bin": number,
                        "commit_reason": "natural",
                        "contributor_intervals": [
                            {"client": number % 3, "dispatch": at / S - 45, "commit": at / S},
                        ],
                        "wall": {
                            "wall_s": number * 2.0,
                            "aggregate_s": 0.25,
                            "eval_s": 0.5,
                            "intrinsic_span_s": 1.0,
                        },
                    },
                ]
            events.append(
                {"event": "agg_eval", "t_ns": at, "round": 0, "test_accuracy": accuracy, "test_loss": loss, "mcc": 0.1}
            )
        path = tmp_path / f"{name}-{seed}.jsonl"
        path.write_text("".join(json.dumps(event) + "\n" for event in [HEADER, *events]) + tail)
        series = read_series(path)
        return replace(series, facts=replace(series.facts, id=f"{name}-{seed}", seedless=name, mode="sim"))

    return make


def figures_of(runs, options=DEFAULTS, names=tuple(EXPERIMENTS)):
    groups = make_groups([run if isinstance(run, tuple) else ("", run) for run in runs], options)
    return {figure.id: figure for figure in draw(names, groups, options)}


def rows_of(figure):
    return list(csv.DictReader(io.StringIO(csv_text(figure.header, figure.rows))))


def shown_texts(spec):
    """Texts of a specification that plotly draws, and reads its small HTML in; names of groups are no such text."""
    if isinstance(spec, str):
        return [spec]
    if isinstance(spec, dict):
        own = {name: part for name, part in spec.items() if name not in ("legendgroup", "offsetgroup")}
        return [text for part in own.values() for text in shown_texts(part)]
    return [text for part in spec for text in shown_texts(part)] if isinstance(spec, list | tuple) else []


def symbols(figure, name):
    return [trace for trace in figure.traces if trace.get("marker", {}).get("symbol") == name]


def check(figures):
    """Every figure is one that plotly knows, JSON as RFC 8259 has it, and its table is rectangular."""
    for figure in figures.values():
        go.Figure(figure.spec)
        json.dumps(figure.spec, allow_nan=False)
        assert {len(row) for row in figure.rows} <= {len(figure.header)}, figure.id
        assert figure.title
        assert figure.reading.endswith(".")


@pytest.mark.parametrize("num_evals", [0, 1, 2, 5])
def test_every_figure_of_a_run_with_few_evaluations(run_of, num_evals):
    figures = figures_of([run_of([0.25, 0.5, 0.6, 0.7, 0.65][:num_evals])])
    assert list(figures) == [id for ids in IDS.values() for id in ids]
    check(figures)
    accuracy = figures["e1_accuracy"]
    assert len(rows_of(accuracy)) == min(num_evals, 4)  # the fifth is after the peak
    if num_evals == 0:
        assert not accuracy.traces
        assert accuracy.spec["layout"]["annotations"][0]["text"] == "no evaluation to show"
        assert "fluxtune has no evaluation." in accuracy.notes


def test_every_figure_of_a_crashed_run_and_of_one_without_newer_fields(run_of):
    torn = run_of([0.2, 0.4], name="torn", tail='{"event":"agg_eval","t_ns":1800')
    assert [problem.message for problem in torn.problems] == ["torn last line, ignored"]
    check(figures_of([torn]))
    whole = run_of([0.2, 0.4, 0.3], name="whole")
    nothing = np.full(len(whole.cycles), np.nan)
    bare = replace(whole, messages=(), cycles=replace(whole.cycles, wall_s=nothing))
    for axis in Axis:
        check(figures_of([bare, torn], Options(axis=axis, cut=Cut.NONE)))


@pytest.mark.parametrize("label", [MARKUP, "L" * 400, "{}\\u003c%s", "名前 ☃"])
def test_labels_from_data_are_harmless_and_bounded(run_of, label):
    figures = figures_of([(label, run_of([0.2, 0.5])), ("other", run_of([0.2, 0.4], name="b"))])
    check(figures)
    for figure in figures.values():
        seen = [text for spec in (figure.spec["data"], figure.layout) for text in shown_texts(spec)]
        assert not any("<script" in text for text in seen)
        assert "L" * 100 not in json.dumps([trace.get("name") for trace in figure.traces])
    assert {row["label"] for row in rows_of(figures["e1_accuracy"])} == {label, "other"}


@pytest.mark.feature("F1")
def test_printed_numbers_are_raw_and_smoothing_is_for_the_eye(run_of):
    run = run_of([0.2, 0.8, 0.3, 0.3, 0.3])
    plain, smooth = (figures_of([run], Options(smooth=size, cut=Cut.NONE), ["e1"])["e1_accuracy"] for size in (1, 5))
    assert rows_of(plain) == rows_of(smooth)
    assert [float(row["accuracy"]) for row in rows_of(smooth)] == [0.2, 0.8, 0.3, 0.3, 0.3]
    for figure in (plain, smooth):
        assert any("peak 80.0 %" in trace["name"] for trace in figure.traces)
        (star,) = symbols(figure, "star")
        assert (star["x"], star["y"]) == ([60.0], [0.8])
    thick = next(trace for trace in smooth.traces if "peak 80.0 %" in trace["name"])
    assert max(thick["y"]) < 0.8
    raw = smooth.traces[0]
    assert raw["y"] == [0.2, 0.8, 0.3, 0.3, 0.3]
    assert raw["line"]["width"] < thick["line"]["width"]


def test_smoothing_keeps_ends_constants_and_gaps():
    assert smoothed(np.array([1.0, 2.0, 6.0]), 3).tolist() == [1.0, 3.0, 6.0]
    assert smoothed(np.full(9, 0.5), 5).tolist() == [0.5] * 9
    assert smoothed(np.array([1.0, np.nan, 3.0]), 3).tolist() == pytest.approx([1.0, math.nan, 3.0], nan_ok=True)
    assert smoothed(np.array([]), 5).tolist() == []


@pytest.mark.feature("F1")
def test_target_and_rounds_are_marked(run_of):
    run = run_of([0.2, 0.4, 0.5, 0.6], rounds=[0, 0, 1, 1])
    run = replace(run, facts=replace(run.facts, target_accuracy=0.55))
    figure = figures_of([run], names=["e1"])["e1_accuracy"]
    level, end = figure.layout["shapes"]
    assert (level["y0"], level["y1"]) == (0.55, 0.55)
    assert (end["x0"], end["x1"]) == (60.0, 60.0)
    assert [note["text"] for note in figure.layout["annotations"]] == ["round 1 ends"]
    assert [trace["line"]["dash"] for trace in figure.traces if trace["name"] == "target 55 %"] == ["dash"]
    (tick,) = symbols(figure, "line-ns-open")
    assert tick["x"] == [60.0]
    (group,) = make_groups([("", run)], Options())
    assert tick["marker"]["color"] == group.look.colour


@pytest.mark.parametrize(
    ("axis", "ends"), [(Axis.ENGINE, 120.0), (Axis.WALL, 4.0), (Axis.PASSES, 40.0), (Axis.BYTES, 7000.0)]
)
def test_curves_run_along_what_was_asked_for(run_of, axis, ends):
    figure = figures_of([run_of([0.2, 0.4, 0.5])], Options(axis=axis, cut=Cut.NONE), ["e1"])["e1_accuracy"]
    unit = {"bytes": 1000.0}.get(axis.value, 1.0)
    assert figure.traces[0]["x"][-1] * unit == ends


@pytest.mark.feature("F4")
def test_productivity_has_an_axis_for_each_cost_and_writes_its_values(run_of):
    figure = figures_of([run_of([0.25, 0.5, 0.75])])["e3_productivity"]
    axes = [name for name in figure.layout if name.startswith("xaxis")]
    assert len(axes) == len(figure.traces) == 3
    (row,) = rows_of(figure)
    assert float(row["loss_drop"]) == pytest.approx(0.5)
    assert float(row["drop_per_compute_h"]) == pytest.approx(0.5 / (2 * 30 / 3600))
    assert float(row["drop_per_million_passes"]) == pytest.approx(0.5 / 40e-6)
    for trace in figure.traces:
        # a bar that is there can be seen: it fills a good part of its own axis
        low, high = figure.layout[f"xaxis{trace['xaxis'].removeprefix('x')}"]["range"]
        assert trace["x"][0] > 0.3 * (high - low)
    written = [note["text"] for note in figure.layout["annotations"]]
    for value in ("30.0", "12,500"):
        assert any(value in text for text in written), value


def test_seeds_of_one_thing_become_a_mean_with_its_interval(run_of):
    curves = [[0.2, 0.4, 0.6], [0.2, 0.5, 0.8], [0.2, 0.6, 0.7]]
    runs = [run_of(curve, seed=seed) for seed, curve in enumerate(curves)]
    figures = figures_of(runs, Options(cut=Cut.NONE))
    check(figures)
    mean = [row for row in rows_of(figures["e1_accuracy"]) if row["line"] == "mean"]
    for at, row in enumerate(mean):
        values = [curve[at] for curve in curves]
        assert float(row["accuracy"]) == pytest.approx(np.mean(values))
        half = stats.t.ppf(0.975, 2) * np.std(values, ddof=1) / math.sqrt(3)
        assert float(row["ci_high"]) - float(row["accuracy"]) == pytest.approx(half)
    names = [trace["name"] for trace in figures["e1_accuracy"].traces]
    assert any("peak 70.0 ± 24.8 %" in name for name in names)
    assert len(make_groups([("", run) for run in runs], Options())) == 1


def test_bands_cover_what_all_seeds_cover_and_one_seed_has_none():
    x = np.array([0.0, 1.0, 2.0])
    assert band([(x, x)]) is None
    both = band([(x, np.array([1.0, 2.0, 3.0])), (np.array([0.5, 1.5]), np.array([3.0, 4.0]))])
    assert both.x.tolist() == [0.5, 1.0, 1.5]
    assert both.mean.tolist() == [2.0, 2.5, 3.0]
    assert band([(x, x), (x + 10, x)]) is None
    assert math.isnan(estimate([0.5]).half_width)
    assert estimate([]).text(".1f") == "-"


def test_every_figure_of_mixed_conditions_says_so_in_itself(run_of):
    for warning in ("These runs differ.", ""):
        figures = figures_of([run_of([0.2, 0.5])], Options(warning=warning))
        check(figures)
        for figure in figures.values():
            # in the figure, not only on its page: an image or a JSON file travels alone
            assert any("condition" in text for text in shown_texts(figure.spec["layout"])) == bool(warning)


def truth(path):
    """What an event file says, read without any of our readers."""
    found = defaultdict(list)
    for line in path.read_text().splitlines()[1:]:
        event = json.loads(line)
        found[event["event"]].append(event)
    return found


@pytest.mark.feature("F1", "F2", "F3", "F5", "F6")
def test_tables_of_figures_equal_a_reading_by_hand(recorded_runs):
    info = list_runs(recorded_runs)[0]
    events = truth(info.folder.events)
    figures = figures_of([read_series(info.folder.path)], Options(cut=Cut.NONE))
    check(figures)
    evals = events["agg_eval"]
    for name, field in (("accuracy", "test_accuracy"), ("loss", "test_loss")):
        rows = rows_of(figures[f"e1_{name}"])
        assert [float(row[name]) for row in rows] == [event[field] for event in evals]
        assert [float(row["engine_s"]) for row in rows] == [event["t_ns"] / S for event in evals]
    last_s = max(event["t_ns"] for group in events.values() for event in group) / S
    config = read_series(info.folder.path).facts.config
    busy = np.zeros(config.clients.num_clients)
    for event in events["trainer_round"]:
        busy[event["client"]] += event["modelled_d_s"] / last_s
    shown = {float(row["busy_frac"]): float(row["cumulative_frac"]) for row in rows_of(figures["e2_utilisation"])}
    for value, frac in shown.items():
        assert frac == pytest.approx(np.mean(np.minimum(busy, 1) <= value + 1e-12))
    traffic = {row["direction"]: int(row["bytes"]) for row in rows_of(figures["e4_traffic"])}
    sizes = defaultdict(list)
    for event in events["comm"]:
        sizes[event["direction"], event["payload"]].append(event["bytes"])
    assert traffic == {
        way: sum(sum(found) for (other, _), found in sizes.items() if other == way) for way in ("down", "up")
    }
    for row in rows_of(figures["e4_sizes"]):
        found = sizes.pop((row["direction"], row["kind"]))
        assert (int(row["count"]), int(row["min_bytes"]), int(row["max_bytes"])) == (
            len(found),
            min(found),
            max(found),
        )
    assert not sizes
    spans = [
        part["commit"] - part["dispatch"] for event in events["agg_round"] for part in event["contributor_intervals"]
    ]
    for row in rows_of(figures["e5_sessions"]):
        assert float(row["cumulative_frac"]) == pytest.approx(np.mean(np.array(spans) <= float(row["span_s"]) + 1e-9))
    taken = sum(int(row["updates"]) for row in rows_of(figures["e5_participation"]))
    assert taken == len(spans)
