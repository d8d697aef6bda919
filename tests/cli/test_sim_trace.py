"""sim trace: show, generate, convert."""

import json

import pytest

KNOWN = "client,t_s,state\n0,0,AVL_TRAIN\n0,50,UN_AVL\n0,100,UN_AVL\n1,0,UN_AVL\n1,100,UN_AVL\n"


@pytest.mark.feature("F23")
def test_show_measures_and_draws(fluxctl, tmp_path):
    (tmp_path / "t.csv").write_text(KNOWN)
    answer = fluxctl("sim", "trace", "show", "t.csv", "--until", "100s")
    assert answer.code == 0, answer.err
    assert "0.250" in answer.out
    assert "2 clients over 100 s: 0.5 transitions each (0 to 1)" in answer.out
    drawn = [line.split()[-1] for line in answer.out.splitlines() if line.strip().startswith(("0 ", "1 "))]
    assert set(drawn[0][:-1]) == {"#", "."}
    assert set(drawn[1]) == {"."}
    data = fluxctl("sim", "trace", "show", "t.csv", "--until", "100s", "--json").envelope["data"]
    assert data["states"]["AVL_TRAIN"]["share"] == 0.25
    assert (data["num_clients"], data["transitions"]) == (2, [0.5, 0, 1])


def test_show_of_a_shipped_trace(fluxctl):
    answer = fluxctl("sim", "trace", "show", "syn_20", "--clients", "25", "--until", "12h", "--json")
    states = answer.envelope["data"]["states"]
    assert states["UN_AVL"]["share"] == pytest.approx(0.2, abs=0.03)
    assert "and 5 more clients" in fluxctl("sim", "trace", "show", "syn_20", "--clients", "25", "--until", "12h").out


def test_generate_writes_what_a_run_reads(fluxctl, tmp_path):
    made = fluxctl(
        "sim", "trace", "generate", "syn_50", "--clients", "4", "--until", "6h", "--out", "t.jsonl", "--json"
    )
    assert made.envelope["data"]["num_clients"] == 4
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert len(lines) == made.envelope["data"]["num_lines"]
    shown = [
        fluxctl("sim", "trace", "show", name, "--clients", "4", "--until", "6h", "--json").envelope["data"]["states"]
        for name in ("syn_50", "t.jsonl")
    ]
    assert shown[0] == shown[1]


def test_conversions_lose_nothing(fluxctl, tmp_path):
    fluxctl("sim", "trace", "generate", "syn_50", "--clients", "4", "--until", "6h", "--out", "a.csv")
    for args in (["a.csv", "b.jsonl"], ["b.jsonl", "c.csv", "--as", "outages"], ["c.csv", "d.jsonl", "--as", "outages"],
                 ["d.jsonl", "e.csv"]):  # fmt: skip
        assert fluxctl("sim", "trace", "convert", *args).code == 0
    assert (tmp_path / "e.csv").read_text() == (tmp_path / "a.csv").read_text()
    assert (tmp_path / "c.csv").read_text().startswith("client,start_s,duration_s\n")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("client,t_s,state\n0,0,AVL_TRAIN\n0,5,ASLEEP\n", 3, "unknown state 'ASLEEP'"),
        ("client,t_s,state\n0,9,UN_AVL\n0,5,UN_AVL\n", 3, "must not decrease"),
        ("client,t_s,state\n0,-1,UN_AVL\n", 2, "must be from 0"),
        ("client,t_s,state\n0,nan,UN_AVL\n", 2, "must be a number of seconds"),
        ("client,t_s,state\n0,1\n", 2, "2 values in 3 columns"),
        ("client,when\n0,1\n", 1, "unknown columns"),
    ],
)
@pytest.mark.parametrize("verb", ["show", "convert"])
def test_malformed_lines_are_told_with_their_number(fluxctl, tmp_path, verb, text, line, message):
    (tmp_path / "t.csv").write_text(text)
    answer = fluxctl("sim", "trace", verb, "t.csv", *(["o.csv"] if verb == "convert" else []))
    assert answer.code == 2
    assert f"t.csv:{line}" in answer.err
    assert message in answer.err
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["show", "syn_21"], "did you mean 'syn_20'"),
        (["show", "gone.csv"], "cannot be read"),
        (["show", "one.csv", "--clients", "3"], "has no line for"),
        (["show", "late.csv"], "the trace has no client 0"),
        (["show", "syn_20", "--until", "0.0000000001s"], "no time to look at"),
        (["show", "syn_20", "--until", "later"], "'later' is not a duration"),
        (["show", "syn_20", "--clients", "0"], "'--clients'"),
        (["generate", "syn_20"], "--out"),
        (["generate", "syn_20", "--out", "t.txt"], "end its name in .csv or .jsonl"),
        (["generate", "syn_20", "--out", "no/such/t.csv"], "cannot write the trace"),
        (["convert", "one.csv", "one.csv"], "would replace what it is read from"),
        (["convert", "one.csv", "two.xml"], "end its name in .csv or .jsonl"),
        (["convert", "three.csv", "o.csv", "--as", "outages"], "knows two states"),
    ],
)
def test_mistakes(fluxctl, tmp_path, args, message):
    (tmp_path / "one.csv").write_text("client,t_s,state\n0,0,AVL_TRAIN\n0,9,UN_AVL\n")
    (tmp_path / "late.csv").write_text("client,t_s,state\n5,0,AVL_TRAIN\n5,9,UN_AVL\n")
    (tmp_path / "three.csv").write_text("client,t_s,state\n0,0,AVL_EVAL\n0,9,UN_AVL\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    answer = fluxctl("sim", "trace", *args)
    assert answer.code == 2
    assert message in answer.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
