"""The canonical hash: blind to the wall and to identity, sensitive to everything else."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxctl.errors import NothingToDoError
from fluxctl.telemetry.hashing import canonical_hash
from fluxctl.telemetry.writer import EventWriter

BASE = [
    {"event": "header", "schema_version": 1, "identity": {"id": "a"}, "seed": 0},
    {"event": "dispatch", "t_ns": 1, "client": 3, "stagger_s": 0.0, "wall": {"recv_s": 0.5}},
    {"event": "agg_round", "t_ns": 9, "contributing_trainers": [3, 4], "var": 0.25, "commit_reason": None},
    {"event": "verdict", "t_ns": 9, "verdict": "COMPLETED", "wall": {"wall_s": 12.5}},
]


def digest(folder, events, **dumps):
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(event, **dumps) + "\n" for event in events))
    return canonical_hash(path)


def changed(index, **fields):
    return [{**event, **fields} if position == index else event for position, event in enumerate(BASE)]


def dropped(index, field):
    return [
        {key: value for key, value in event.items() if position != index or key != field}
        for position, event in enumerate(BASE)
    ]


@pytest.mark.parametrize(
    "events",
    [
        changed(0, identity={"id": "b", "host": "elsewhere"}),
        dropped(0, "identity"),
        changed(1, wall={"recv_s": 99.0, "more": None}),
        dropped(1, "wall"),
        changed(2, wall={"wall_s": 1.0}),
    ],
)
@pytest.mark.feature("G5")
def test_wall_and_identity_do_not_count(tmp_path, events):
    assert digest(tmp_path, events) == digest(tmp_path, BASE)


def test_white_space_order_of_keys_and_a_torn_line_do_not_count(tmp_path):
    base = digest(tmp_path, BASE)
    assert digest(tmp_path, BASE, separators=(" , ", " : ")) == base
    assert digest(tmp_path, [dict(reversed(event.items())) for event in BASE]) == base
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"event":"agg_ro')
    assert canonical_hash(tmp_path / "events.jsonl") == base


@pytest.mark.parametrize(
    "events",
    [
        changed(0, seed=1),
        dropped(0, "seed"),
        changed(1, t_ns=2),
        changed(1, client=4),
        changed(1, stagger_s=0),
        changed(2, var=0.25000000000000006),
        changed(2, contributing_trainers=[4, 3]),
        changed(2, commit_reason="natural"),
        dropped(2, "commit_reason"),
        changed(3, verdict="CONVERGED"),
        changed(3, identity={"id": "a"}),  # only the header's identity is left out
        [BASE[0], BASE[2], BASE[1], BASE[3]],
        BASE[:-1],
        [*BASE, BASE[-1]],
    ],
)
def test_everything_else_counts(tmp_path, events):
    assert digest(tmp_path, events) != digest(tmp_path, BASE)


LEAVES = [(index, key) for index, event in enumerate(BASE) for key in event if key not in ("event", "schema_version")]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(LEAVES), st.integers() | st.text() | st.floats(allow_nan=False) | st.lists(st.integers()))
def test_exactly_the_changes_that_count_change_it(tmp_path_factory, leaf, value):
    index, key = leaf
    folder = tmp_path_factory.mktemp("run")
    is_free = key == "wall" or leaf == (0, "identity")
    is_same = json.dumps(BASE[index][key]) == json.dumps(value)
    assert (digest(folder, changed(index, **{key: value})) == digest(folder, BASE)) == (is_free or is_same)


def test_is_the_sha256_of_the_sorted_compact_lines(tmp_path):
    """Against `sha256sum` over the two lines, typed by hand with sorted keys and no identity."""
    events = [{"event": "header", "schema_version": 1, "identity": {}}, {"event": "dispatch", "t_ns": 1, "client": 3}]
    assert digest(tmp_path, events) == "34e8200a437279680290c4d912730d4ea6c41c8ad3a712c59e870d50a6ecf9a8"


def test_writer_and_hash_agree_on_what_belongs_to_the_wall(tmp_path):
    hashes = set()
    for name, measured in (("a", float("nan")), ("b", 0.5)):
        (tmp_path / name).mkdir()
        with EventWriter(tmp_path / name) as writer:
            writer.header({"id": name}, seed=1)
            writer.emit(1, "agg_eval", {"test_loss": float("nan")}, wall={"eval_s": measured})
            writer.note("progress", {"run": name})
        hashes.add(canonical_hash(tmp_path / name / "events.jsonl"))
    assert len(hashes) == 1


def test_an_absent_stream_has_no_hash(tmp_path):
    with pytest.raises(NothingToDoError):
        canonical_hash(tmp_path / "events.jsonl")
