"""The one registry of how systems look: names, colours, markers, dashes, order and emphasis.

Colours stand at 3:1 or more against white, keep apart for readers without green receptors, and the three systems of
the main run set also in grey; for the rest marker and dash are the second carrier. A test measures all of this. Tints
of one colour, dark to light, stand for the members of an ablation or for one system in several variants.

Text from data is made harmless here: figures read a small HTML of their own.
"""

from __future__ import annotations

import colorsys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Final

from fluxctl.types import JSON

SYSTEM: Final = "fluxtune"  # what --system-name renames
FONT: Final = "DejaVu Sans, Verdana, Arial, sans-serif"
INK: Final = "#1a1a1a"
MUTED: Final = "#5c5c5c"
GRID: Final = "#e3e3e3"
STAR: Final = "star"  # the peak; no system uses it
MIN_CONTRAST: Final = 3.0  # WCAG 2.2, 1.4.11: graphical objects against their background
_LONGEST: Final = 34


@dataclass(frozen=True, slots=True)
class Look:
    """How one system is drawn.

    Attributes:
        name: What the legend calls it.
        colour: ``#rrggbb``.
        marker: Plotly symbol.
        dash: Plotly dash.
        order: Place among others, from 0.
        is_emphasised: Whether its line is thicker and its name bold.
    """

    name: str
    colour: str
    marker: str
    dash: str
    order: int
    is_emphasised: bool = False

    @property
    def width(self) -> float:
        """Line width in pixels."""
        return 3.0 if self.is_emphasised else 2.0

    def line(self) -> dict[str, JSON]:
        """The line of the smoothed curve."""
        return {"color": self.colour, "dash": self.dash, "width": self.width}

    def faint(self, opacity: float) -> str:
        """The colour, as light as the opacity says."""
        red, green, blue = (round(255 * part) for part in _rgb(self.colour))
        return f"rgba({red},{green},{blue},{opacity:g})"


def _looks(*rows: tuple[str, str, str, str, str]) -> dict[str, Look]:
    return {
        key: Look(name, colour, marker, dash, order, is_emphasised=key == SYSTEM)
        for order, (key, name, colour, marker, dash) in enumerate(rows)
    }


LOOKS: Final[Mapping[str, Look]] = _looks(
    ("fwdllm", "fwdllm", "#E06A00", "square", "dash"),
    ("fwdllm_plus", "fwdllm+", "#9A4200", "diamond", "dashdot"),
    ("fluxtune", "fluxtune", "#0A2A80", "circle", "solid"),
    ("fluxtune_dynkc", "fluxtune dynamic K, C", "#1F55BE", "triangle-up", "longdash"),
    ("fluxtune_avg", "fluxtune average", "#3D8BEF", "triangle-down", "dot"),
    ("fedavg", "FedAvg", "#3D3D3D", "cross", "dash"),
    ("fedbuff", "FedBuff", "#7A858C", "x", "solid"),
    ("oort", "Oort", "#0A9C5B", "pentagon", "longdashdot"),
    ("felix", "Felix", "#4C0856", "hexagon", "dot"),
    ("refl", "REFL", "#264A11", "hourglass", "longdashdot"),
    ("oracle", "oracle", "#000000", "bowtie", "dashdot"),
)
# For parts and quantities that are no systems: neighbours differ in grey by 15 L* or more, all differ without green
# receptors. After Okabe and Ito, Color universal design, 2008, darkened until each stands out from white.
PALETTE: Final = ("#1F55BE", "#E06A00", "#4C0856", "#0A9C5B", "#000000", "#9A4200", "#3D8BEF", "#3D3D3D")
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_FILLS: Final = ("", "-open", "-open-dot", "-dot")
_LONGEST_ABLATION: Final = 5  # a short ramp leads up to the whole system, its last entry; a longer one is a list
MARKERS: Final = tuple(dict.fromkeys(look.marker for look in LOOKS.values()))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a look is needed for.

    Attributes:
        label: What to call it; empty = the registry's name.
        baseline: System under test; any text.
        variant: Variant or mode that tells it from others of the same baseline; may be empty.
    """

    label: str
    baseline: str
    variant: str = ""


def looks_for(wanted: Sequence[Wanted], system_name: str = SYSTEM) -> list[Look]:
    """Assign a look to each entry of a figure.

    A baseline keeps its colour in every figure. Several entries of one baseline differ in dash and marker; where there
    is no other baseline, as in an ablation, also in tint, from light to dark in the order given. Baselines that the
    registry does not know take looks that are free.

    Args:
        wanted: Entries, in order.
        system_name: What to call the system whose registered name is ``fluxtune``.
    """
    free = [look for key, look in LOOKS.items() if key not in {entry.baseline for entry in wanted}]
    bases: dict[str, Look] = {}
    for entry in wanted:
        if entry.baseline not in bases:
            known = LOOKS.get(entry.baseline)
            spare = free.pop(0) if free else LOOKS["oracle"]
            bases[entry.baseline] = known or replace(spare, name=entry.baseline, order=len(LOOKS) + len(bases))
            if known is not None:
                free.insert(0, spare)
    looks = []
    for entry in wanted:
        base = bases[entry.baseline]
        siblings = [other for other in wanted if other.baseline == entry.baseline]
        name = entry.label or renamed(f"{base.name} {entry.variant}".strip(), system_name)
        if len(siblings) == 1:
            looks.append(replace(base, name=name))
            continue
        place = next(index for index, other in enumerate(siblings) if other is entry)
        looks.append(_sibling(base, name, place, len(siblings), alone=len(bases) == 1))
    return looks


def _sibling(base: Look, name: str, place: int, count: int, *, alone: bool) -> Look:
    if not alone:  # among other systems the colour stays the system's
        dash = DASHES[(DASHES.index(base.dash) + place) % len(DASHES)]
        return Look(name, base.colour, f"{base.marker}{_FILLS[place % len(_FILLS)]}", dash, base.order)
    marker = MARKERS[(MARKERS.index(base.marker) + place) % len(MARKERS)]
    dash = DASHES[(count - 1 - place) % len(DASHES)]  # the last one is solid
    is_whole = place == count - 1 and count <= _LONGEST_ABLATION
    return Look(name, ramp(base.colour, count)[place], marker, dash, base.order, is_emphasised=is_whole)


def renamed(name: str, system_name: str) -> str:
    """A registered name with the system's own name switched."""
    return f"{system_name}{name.removeprefix(SYSTEM)}" if name.startswith(SYSTEM) else name


def ramp(colour: str, count: int) -> list[str]:
    """Tints of a colour, light to dark in equal steps of lightness; the lightest still stands out from white.

    Args:
        colour: ``#rrggbb``, gives the hue.
        count: How many.
    """
    hue, _, saturation = colorsys.rgb_to_hls(*_rgb(colour))
    light, dark = 58.0, 14.0  # CIE L*; 58 is 3.4:1 against white
    step = (light - dark) / max(1, count - 1)
    return [_with_lightness(hue, saturation, light - step * index) for index in range(count)]


def _with_lightness(hue: float, saturation: float, lightness: float) -> str:
    """The colour of this hue with a given CIE L*, by bisection: L* grows with HLS lightness."""
    low, high = 0.0, 1.0
    for _ in range(24):
        middle = (low + high) / 2
        rgb = colorsys.hls_to_rgb(hue, middle, saturation)
        low, high = (middle, high) if cie_lightness(luminance(rgb)) < lightness else (low, middle)
    red, green, blue = (round(255 * part) for part in colorsys.hls_to_rgb(hue, low, saturation))
    return f"#{red:02X}{green:02X}{blue:02X}"


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def luminance(rgb: tuple[float, float, float]) -> float:
    """Relative luminance of an sRGB colour, 0 to 1 (WCAG 2.2)."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def cie_lightness(y: float) -> float:
    """CIE 1976 L* of a relative luminance."""
    return float(116 * y ** (1 / 3) - 16) if y > (6 / 29) ** 3 else y * (29 / 3) ** 3


def plain(text: str, longest: int = _LONGEST) -> str:
    """Text from data for a figure: no markup, one line, and cut in the middle when it is very long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(line) > longest:
        head = longest * 3 // 5
        line = f"{line[:head]}…{line[len(line) - (longest - head - 1) :]}"
    return escape(line, quote=False)


def legend_name(look: Look, suffix: str = "") -> str:
    """A legend entry: the name, bold for the system itself, and what there is to say about it."""
    name = plain(look.name)
    return f"{f'<b>{name}</b>' if look.is_emphasised else name}{f'  {plain(suffix, 60)}' if suffix else ''}"
