"""The experiment guide: each experiment has a question, commands that are accepted, and figures that are there."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from fluxctl.cli import app
from fluxctl.config.presets import preset_names
from fluxctl.plots.manifest import load_manifest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "experiments.md"
FIGURES = DOCS / "figures"
MOST_BYTES = 200_000
PNG_START = b"\x89PNG\r\n\x1a\n"
NO_EXPERIMENTS = {"How close are the generated phone traces to the measured ones?", "Cost"}  # measured otherwise
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Experiment:
    """A section of the guide."""

    title: str
    text: str

    @property
    def commands(self) -> list[list[str]]:
        """Arguments of the commands in its code blocks."""
        lines = [line for block in BLOCK.findall(self.text) for line in block.splitlines()]
        return [shlex.split(line)[1:] for line in lines if line.startswith("fluxctl ")]

    @property
    def images(self) -> list[tuple[str, str]]:
        """Alternative text and target of its images."""
        return IMAGE.findall(self.text)


def experiments(page: str) -> list[Experiment]:
    """The sections of a page that are experiments."""
    parts = re.split(r"^## +(.+)$", page, flags=re.MULTILINE)[1:]
    sections = [Experiment(title, text) for title, text in zip(parts[::2], parts[1::2], strict=True)]
    return [section for section in sections if section.title not in NO_EXPERIMENTS]


def parse(words: list[str]) -> dict[str, object]:
    """Let the command line parse a command without calling it; returns its values."""
    program = typer.main.get_command(app)
    with program.make_context("fluxctl", [], resilient_parsing=True) as outer:
        name, command, rest = program.resolve_command(outer, words)  # type: ignore[attr-defined]
        return dict(command.make_context(name, list(rest), parent=outer).params)


EXPERIMENTS = experiments(PAGE.read_text(encoding="utf-8"))
each = pytest.mark.parametrize("experiment", EXPERIMENTS, ids=[experiment.title for experiment in EXPERIMENTS])


@pytest.mark.feature("F20")
@each
def test_an_experiment_asks_a_question_and_says_what_was_unexpected(experiment: Experiment) -> None:
    assert re.search(r"^Question: .", experiment.text, flags=re.MULTILINE)
    assert re.search(r"\bagainst (expectation|the rest of this page)", experiment.text, flags=re.IGNORECASE)


@pytest.mark.feature("F20")
@each
def test_its_commands_are_accepted(experiment: Experiment) -> None:
    verbs = [words[0] for words in experiment.commands]
    assert "launch" in verbs
    assert "plot" in verbs
    for words in experiment.commands:
        values = parse(words)
        if words[0] == "launch":
            assert values["run_set"] in preset_names("run_sets")
        if words[0] == "plot" and values["figs"] is not None:
            load_manifest(str(values["figs"]))


@pytest.mark.feature("F20")
@each
def test_its_figures_are_there_and_described(experiment: Experiment) -> None:
    assert experiment.images
    for words, target in experiment.images:
        path = PAGE.parent / target
        assert len(words) > 20, f"{target} needs words for those who cannot see it"
        assert path.is_relative_to(FIGURES)
        assert path.read_bytes().startswith(PNG_START)
        assert path.stat().st_size < MOST_BYTES


@pytest.mark.feature("F20")
def test_every_run_set_is_in_the_guide() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = preset_names("run_sets")
    assert [name for name in names if f"--run-set {name}" not in text and f"`{name}`" not in text] == []
    assert len(EXPERIMENTS) >= 12


@pytest.mark.feature("F20")
def test_no_figure_is_left_over() -> None:
    shown = {target for experiment in EXPERIMENTS for _, target in experiment.images}
    kept = {path.relative_to(DOCS).as_posix() for path in FIGURES.rglob("*") if path.is_file()}
    assert kept == shown


def test_a_command_that_is_not_accepted_is_noticed() -> None:
    with pytest.raises(Exception, match="--no-such-option"):
        parse(["plot", "e1", "--no-such-option"])
    with pytest.raises(Exception, match="e9"):
        parse(["plot", "e9"])


def test_sections_commands_and_images_are_found() -> None:
    body = "Question: so?\n\n```\nfluxctl plot e1 'a b'\n```\n![w\nx](f.png)\n### S\n![y](g.png)\n"
    (found,) = experiments(f"# T\n\n## A\n\n{body}\n## Cost\n\nNo.\n")
    assert found.title == "A"
    assert found.commands == [["plot", "e1", "a b"]]
    assert found.images == [("w\nx", "f.png"), ("y", "g.png")]
