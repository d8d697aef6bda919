"""Durations: what is read, what is told back, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.config.durations import parse_duration, show_duration
from fluxctl.config.load import load_layer, resolve
from fluxctl.config.source import Text
from fluxctl.errors import ConfigError

pytestmark = pytest.mark.feature("E12")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200), ("90s", 90), ("0.5h", 1800), (".5h", 1800), ("1d2h", 93600), ("1d 2h 3m 4s", 93784),
        ("10min", 600), ("250ms", 0.25), ("3600", 3600), ("1e3", 1000), (" 2H ", 7200), ("1.5", 1.5),
    ],
)  # fmt: skip
def test_what_is_read(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "h", "2x", "two hours", "2h!", "2 h h", "nan", "inf", "-2h", "-5", "0", "0s", "1e99"]
)
def test_nonsense_is_refused_with_a_hint(text):
    with pytest.raises(ConfigError) as caught:
        parse_duration(text, "--stall-window x")
    assert caught.value.where == "--stall-window x"
    assert "48h" in caught.value.hint


@pytest.mark.parametrize("text", ["1h1h", "2h1d", "5s1m"])
def test_units_come_once_and_the_largest_first(text):
    with pytest.raises(ConfigError) as caught:
        parse_duration(text)
    assert "largest unit first" in caught.value.hint


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(90, "90 s"), (7200, "2 h"), (93784, "1 d 2 h 3 min 4 s"), (1.5, "1.5 s"), (172800, "2 d"), (0, "0 s")],
)
def test_what_is_told_back(seconds, text):
    assert show_duration(seconds) == text


@given(st.integers(1, 10**8))
def test_what_is_told_back_is_what_was_understood(seconds):
    assert parse_duration(show_duration(seconds)) == pytest.approx(seconds)


@pytest.mark.parametrize(("written", "seconds"), [("2h", 7200), ('"90s"', 90), ("1d2h", 93600), ("5400", 5400)])
def test_a_file_may_say_a_duration_for_seconds(written, seconds):
    layers = [load_layer(Text(f"limits:\n  max_runtime_s: {written}\n", "x.yaml"))]
    assert resolve(layers).config.limits.max_runtime_s == seconds


def test_a_file_that_says_no_duration_is_told_where_and_how():
    with pytest.raises(ConfigError) as caught:
        load_layer(Text("limits:\n  max_runtime_s: 2h1d\n", "x.yaml"))
    assert caught.value.where == "x.yaml:2:18"
    assert "seconds or a duration such as 90s, 2h or 1d2h" in str(caught.value)
