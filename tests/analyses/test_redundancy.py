"""Full payloads by client and version, against a count by hand."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.analyses.payloads import COMM, full_payloads
from fluxctl.analyses.redundancy import redundancy
from fluxctl.runs.index import list_runs
from fluxctl.telemetry.columns import AbsentField, read_columns

KINDS = ["weights", "weights_and_gradient", "keep_going", "gradient"]
messages = st.lists(
    st.tuples(st.sampled_from(["down", "up"]), st.sampled_from(KINDS), *(st.integers(0, 3) for _ in range(3))),
    max_size=60,
)


def comm(way, kind, client, round_, bin_, size=100):
    return {"event": "comm", "t_ns": 0, "direction": way, "payload": kind, "bytes": size, "peer": client,
            "round": round_, "bin": bin_}  # fmt: skip


_NAMES = itertools.count()


@given(messages)
def test_counts_equal_a_dictionary(tmp_path_factory, drawn):
    path = tmp_path_factory.getbasetemp() / f"comm{next(_NAMES)}.jsonl"
    lines = ['{"event":"header","schema_version":1}']
    lines += [str(comm(*item)).replace("'", '"') for item in drawn]
    path.write_text("\n".join(lines) + "\n")
    found = full_payloads(read_columns(path, {"comm": COMM})["comm"])
    expected = Counter(item[2:] for item in drawn if item[0] == "down" and item[1].startswith("weights"))
    assert found.num_full == sum(expected.values())
    assert found.num_redundant == sum(expected.values()) - len(expected)
    assert found.most == max(expected.values(), default=0)
    assert found.redundant_bytes == 100 * found.num_redundant
    assert found.num_down == sum(item[0] == "down" for item in drawn)


def test_the_same_bin_of_the_next_round_is_another_version(write_events):
    path = write_events([comm("down", "weights", 1, 0, 3), comm("down", "weights", 1, 1, 3)])
    assert full_payloads(read_columns(path, {"comm": COMM})["comm"]).num_redundant == 0


def test_real_runs_have_none(recorded_runs):
    for info in list_runs(recorded_runs):
        analysis = redundancy(info.folder, max_frac=0.0)
        assert analysis.is_ok
        assert analysis.conclusion.startswith("No full payload was redundant: ")
        assert analysis.conclusion.endswith("within the limit of 0.0%.")


def double(item):
    return [item, item] if item["event"] == "comm" and item["payload"] == "weights" else item


def test_a_share_above_the_limit_is_a_no(run_copy, edit_events):
    folder = run_copy()
    edit_events(folder, double)
    bad = redundancy(folder, max_frac=0.49)
    assert not bad.is_ok
    assert bad.data["redundant_frac"] == 0.5
    assert bad.conclusion.startswith("50.0% of the full payloads")
    assert bad.conclusion.endswith("above the limit of 49.0%.")
    assert redundancy(folder, max_frac=0.5).is_ok
    assert redundancy(folder).is_ok
    assert bad.grids[1].rows
    assert sum(row[2] for row in bad.charts[0].points) == bad.data["num_redundant"]
    assert len(bad.charts[0].draw().traces) == 2


def test_messages_that_do_not_say_what_they_carry_are_refused(run_copy, edit_events):
    folder = run_copy()

    def forget(item):
        item.pop("payload", None)
        return item

    edit_events(folder, forget)
    with pytest.raises(AbsentField, match="comm.payload"):
        redundancy(folder)


def test_a_run_without_messages(run_copy, edit_events):
    folder = run_copy()
    edit_events(folder, lambda item: None if item["event"] == "comm" else item)
    assert redundancy(folder, 0.0).conclusion == "No full payload was sent."
