"""The registry of looks, measured: contrast, distance without green receptors, distance in grey, order and names."""

import itertools
import math

import numpy as np
import pytest

from fluxctl.plots.style import (
    DASHES,
    LOOKS,
    MARKERS,
    MIN_CONTRAST,
    PALETTE,
    STAR,
    Wanted,
    cie_lightness,
    legend_name,
    looks_for,
    luminance,
    plain,
    ramp,
)

# Complete deuteranopia on linear sRGB. Machado, Oliveira and Fernandes, A physiologically-based model for simulation of
# color vision deficiency, IEEE TVCG 15(6), 2009, table 1, severity 1.0.
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = TO_XYZ @ np.ones(3)
MIN_SEEN = 15.0  # CIE 1976 colour difference; about 2 is just noticeable side by side
MIN_GREY = 15.0  # L*
MAIN = ("fwdllm", "fwdllm_plus", "fluxtune")


def linear(colour):
    rgb = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE 1976 L*a*b* of linear sRGB, written out here so that nothing of the registry judges itself."""
    ratio = TO_XYZ @ np.clip(rgb, 0, 1) / WHITE
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def lightness(colour):
    return lab(linear(colour))[0]


def seen_apart(one, other):
    return float(np.linalg.norm(lab(DEUTERANOPIA @ linear(one)) - lab(DEUTERANOPIA @ linear(other))))


def contrast(colour):
    return 1.05 / (float(linear(colour) @ TO_XYZ[1]) + 0.05)


def test_the_measures_know_white_black_and_what_deuteranopes_confuse():
    assert contrast("#000000") == pytest.approx(21)
    assert lightness("#FFFFFF") == pytest.approx(100)
    assert seen_apart("#808080", "#808080") == 0
    # a red and a green of one lightness: far apart for most, close without green receptors
    red, green = "#C05030", "#5F7F1F"
    assert np.linalg.norm(lab(linear(red)) - lab(linear(green))) > 2 * seen_apart(red, green)


@pytest.mark.feature("F10")
@pytest.mark.parametrize("colour", [*(look.colour for look in LOOKS.values()), *PALETTE])
def test_every_colour_stands_out_from_white(colour):
    assert contrast(colour) >= MIN_CONTRAST
    rgb = tuple(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    assert cie_lightness(luminance(rgb)) == pytest.approx(lightness(colour), abs=0.1)


@pytest.mark.feature("F10")
@pytest.mark.parametrize("colours", [[look.colour for look in LOOKS.values()], PALETTE], ids=["systems", "parts"])
def test_no_two_colours_are_confused_without_green_receptors(colours):
    apart = {pair: seen_apart(*pair) for pair in itertools.combinations(colours, 2)}
    assert min(apart.values()) >= MIN_SEEN, min(apart, key=apart.get)


@pytest.mark.feature("F10")
def test_in_grey_colours_differ_or_marker_and_dash_do():
    for one, other in itertools.combinations(LOOKS.values(), 2):
        in_grey = abs(lightness(one.colour) - lightness(other.colour))
        assert in_grey >= MIN_GREY or (one.marker != other.marker and one.dash != other.dash), (one.name, other.name)
    main = [LOOKS[name].colour for name in MAIN]
    assert min(abs(lightness(a) - lightness(b)) for a, b in itertools.combinations(main, 2)) >= MIN_GREY
    assert min(abs(lightness(a) - lightness(b)) for a, b in itertools.pairwise(PALETTE)) >= MIN_GREY


def test_markers_and_orders_are_unique_and_the_star_belongs_to_the_peak():
    assert len({look.marker for look in LOOKS.values()}) == len(LOOKS)
    assert [look.order for look in LOOKS.values()] == list(range(len(LOOKS)))
    assert STAR not in MARKERS
    assert {look.dash for look in LOOKS.values()} <= set(DASHES)
    assert [look.name for look in LOOKS.values() if look.is_emphasised] == ["fluxtune"]


@pytest.mark.feature("F10")
@pytest.mark.parametrize("count", [1, 2, 4, 7])
@pytest.mark.parametrize("colour", ["#0A2A80", "#E06A00", "#3D3D3D"])
def test_a_ramp_runs_from_light_to_dark_in_equal_steps(colour, count):
    tints = [lightness(tint) for tint in ramp(colour, count)]
    assert len(tints) == count
    assert all(contrast(tint) >= MIN_CONTRAST for tint in ramp(colour, count))
    steps = -np.diff(tints)
    assert (steps > 0).all()
    assert steps == pytest.approx(np.full(count - 1, 44 / max(1, count - 1)), abs=1.0)


@pytest.mark.feature("F10")
def test_members_of_an_ablation_share_a_hue_and_differ_in_tint_marker_and_dash():
    looks = looks_for([Wanted("", "fluxtune", variant) for variant in ("R1", "R2", "R3", "R4")])
    assert [look.name for look in looks] == ["fluxtune R1", "fluxtune R2", "fluxtune R3", "fluxtune R4"]
    tints = [lightness(look.colour) for look in looks]
    assert tints == sorted(tints, reverse=True)
    assert len({look.marker for look in looks}) == len({look.dash for look in looks}) == 4
    assert [look.is_emphasised for look in looks] == [False, False, False, True]
    listed = looks_for([Wanted("", "fluxtune", f"lr{number}") for number in range(8)])
    assert not any(look.is_emphasised for look in listed)


@pytest.mark.feature("F10")
def test_the_name_of_the_system_can_be_switched_and_a_baseline_keeps_its_colour():
    alone = looks_for([Wanted("", "fluxtune")], "Ours")[0]
    among = looks_for([Wanted("", "fwdllm"), Wanted("", "fluxtune"), Wanted("", "fluxtune_avg")], "Ours")
    assert alone.name == "Ours"
    assert [look.name for look in among] == ["fwdllm", "Ours", "Ours average"]
    assert among[1].colour == alone.colour == LOOKS["fluxtune"].colour
    assert looks_for([Wanted("K = 10", "fluxtune")])[0].name == "K = 10"


def test_unknown_systems_take_looks_that_are_free():
    looks = looks_for([Wanted("", "fwdllm"), *(Wanted("", f"new{number}") for number in range(6))])
    assert len({look.colour for look in looks}) == len({look.marker for look in looks}) == 7
    assert looks[0].colour == LOOKS["fwdllm"].colour
    many = looks_for([Wanted("", f"new{number}") for number in range(40)])
    assert [look.name for look in many] == [f"new{number}" for number in range(40)]


def test_text_from_data_is_made_harmless():
    assert plain("<b>&\x00\n x") == "&lt;b&gt;&amp; x"
    long = plain("a" * 50 + "<" + "z" * 50)
    assert len(long) == 34
    assert long.startswith("aaa")
    assert long.endswith("zzz")
    look = looks_for([Wanted("<script>alert(1)</script>", "fluxtune")])[0]
    assert "<script" not in legend_name(look, "peak <1>")
    assert legend_name(look).startswith("<b>&lt;script")
    assert math.isclose(look.width, 3)
