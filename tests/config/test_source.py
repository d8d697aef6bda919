import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.config.source import Text, parse, read_text, snake
from fluxctl.errors import ConfigError, ConfigProblemsError, UnknownNameError


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        parse(Text(text, "x.yaml"))
    error = caught.value
    listed = error.problems if isinstance(error, ConfigProblemsError) else (error,)
    return [(item.where, item.message) for item in listed]


def test_types_of_the_core_schema():
    tree = parse(Text("a: 1\nb: 1e-4\nc: no\nd: true\ne: ~\nf: 0x10\ng: 2020-01-01\nh: [1, x]\ni: {}\nj: '1'\n", "x"))
    assert tree.plain() == {
        "a": 1,
        "b": 1e-4,
        "c": "no",
        "d": True,
        "e": None,
        "f": 16,
        "g": "2020-01-01",
        "h": [1, "x"],
        "i": {},
        "j": "1",
    }
    assert type(tree.plain()["a"]) is int  # plain types, so that hashing and JSON see no subclass


def test_places_of_keys_and_values():
    tree = parse(Text("aggregation:\n    goal: ten\n", "x.yaml"))
    node = tree.find(["aggregation", "goal"])
    assert (node.place.where, node.place.origin) == ("x.yaml:2:11", "x.yaml:2")
    assert node.key.where == "x.yaml:2:5"
    assert node.place.snippet() == "   1 | aggregation:\n   2 |     goal: ten\n     |           ^^^"


@pytest.mark.feature("G1")
def test_a_duplicate_key_names_both_positions():
    assert problems("a: 1\nb: 2\na: 3\n") == [("x.yaml:3:1", "key 'a' is given twice, first at x.yaml:1:1")]


@pytest.mark.feature("G1")
@pytest.mark.parametrize("order", [("max_bins", "maxBins"), ("maxBins", "max_bins"), ("max-bins", "max_bins")])
def test_two_spellings_of_one_key_name_both_positions(order):
    found = problems(f"limits:\n  {order[0]}: 1\n  {order[1]}: 2\n")
    assert found == [("x.yaml:3:3", f"'{order[0]}' and '{order[1]}' are two spellings of one key, first at x.yaml:2:3")]


def test_merged_keys_keep_their_place_and_lose_to_own_keys():
    tree = parse(Text("base: &b {goal: 3, lr: 1}\nx:\n  <<: *b\n  goal: 5\n", "x.yaml"))
    assert tree.find(["x"]).plain() == {"goal": 5, "lr": 1}
    assert tree.find(["x", "lr"]).key.where == "x.yaml:1:20"


def test_a_list_of_merges_prefers_the_first():
    tree = parse(Text("a: &a {k: 1}\nb: &b {k: 2, l: 3}\nx: {<<: [*a, *b]}\n", "x.yaml"))
    assert tree.find(["x"]).plain() == {"k": 1, "l": 3}


@pytest.mark.feature("G1")
def test_two_spellings_through_a_merge():
    assert problems("a: &a {maxBins: 1}\nx:\n  <<: *a\n  max_bins: 2\n") == [
        ("x.yaml:4:3", "'maxBins' and 'max_bins' are two spellings of one key, first at x.yaml:1:8")
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: [1\n", "x.yaml:2:1"),
        ("a:\n\tb: 1\n", "x.yaml:2:1"),
        ("a: 'x\n", "x.yaml:2:1"),
        ("a: *nobody\n", "x.yaml:1:4"),
        ("a: &a [*a]\n", "x.yaml:1:4"),
        ("a: !!python/object:os.system x\n", "x.yaml:1:4"),
        ("a: !mine {}\n", "x.yaml:1:4"),
        ("? [1]\n: 2\n", "x.yaml:1:3"),
        ("1: 2\n", "x.yaml:1:1"),
        ("x:\n  <<: 3\n", "x.yaml:2:7"),
        ("a: 1\n---\nb: 2\n", "x.yaml:2:1"),
        ("a: \x07\n", "x.yaml:1:1"),
        ("a: " + "[" * 900, "x.yaml:1:1"),
        ("a: " + "[" * 40 + "]" * 40, "x.yaml:1:36"),
    ],
)
def test_malformed_text_has_a_place(text, where):
    assert problems(text)[0][0] == where


def test_aliases_cannot_blow_up_memory():
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 24)]
    assert "too large" in problems("\n".join(lines))[0][1]


def test_a_problem_in_an_anchored_part_is_told_once():
    assert len(problems("a: &a {k: !x 1}\nb: *a\nc: *a\n")) == 1


def test_a_long_line_is_shown_around_the_caret():
    tree = parse(Text("a: {" + "k: 1, " * 1 + f"s: {'y' * 300}, goal: ten}}", "x"))
    lines = tree.find(["a", "goal"]).place.snippet().splitlines()
    assert max(map(len, lines)) <= 110
    caret = lines[-1].index("^")
    assert lines[-2][caret : caret + 3] == "ten"


def test_an_argument_has_no_line():
    node = parse(Text("5", "--set a=5", "--set"))
    assert (node.place.origin, node.place.where, node.place.snippet()) == ("--set", "--set a=5", None)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UnknownNameError, match="there is no file"):
        read_text(tmp_path / "missing.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff\n")
    with pytest.raises(ConfigError, match="byte 3"):
        read_text(tmp_path / "latin.yaml")
    with pytest.raises(ConfigError, match="cannot read"):
        read_text(tmp_path)


@given(st.text(max_size=60))
def test_any_text_parses_or_is_a_config_error(text):
    try:
        where = parse(Text(text, "x")).place.where
    except ConfigError as error:
        where = error.where
    assert where.startswith("x:")


@pytest.mark.parametrize(
    ("name", "expected"), [("maxBins", "max_bins"), ("max-bins", "max_bins"), ("max_bins", "max_bins"), ("K", "k")]
)
def test_snake(name, expected):
    assert snake(name) == expected
