"""Tiers: every value is in one of them."""

import importlib.util
from pathlib import Path

import pytest

from fluxctl.config.load import resolve
from fluxctl.config.override import from_set
from fluxctl.config.schema import leaf_paths
from fluxctl.gate.checks import examine
from fluxctl.gate.host import look_at
from fluxctl.gate.tier_items import COLUMNS, IDENTITY, ITEMS, values_of
from fluxctl.gate.tiers import Status, review

pytestmark = pytest.mark.feature("E16")


def other_values():
    """One other value for every leaf of the model."""
    path = Path(__file__).parents[1] / "config" / "test_fingerprint.py"
    spec = importlib.util.spec_from_file_location("other_values", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.OTHER


OTHER = other_values()


@pytest.fixture(autouse=True)
def _names_need_not_exist(monkeypatch):
    """A policy of another name is as good as any here."""
    monkeypatch.setattr("fluxctl.gate.host.read_back", lambda resolved: resolved.config)


def shown(*sets, overridden=()):
    cases = look_at([(resolve([], [from_set(text) for text in ("model.name=nowhere", *sets)]), frozenset(overridden))])
    return review(cases, examine(cases))


def texts(found):
    """What a reader sees, without the notes."""
    return [
        *((row.label, row.value) for row in found.rows if row.label != "condition"),
        *((knob.title, cell.text) for knob in found.knobs for cell in knob.cells),
        *((item.path, item.value) for item in found.rest),
        *(("baseline", name) for name in found.baselines),
        *(("note", row.note) for row in found.rows),
    ]


BASE = texts(shown())


@pytest.mark.parametrize("path", sorted(set(OTHER) - {"availability.trace", "delays.registry"}))
def test_each_value_of_a_configuration_is_shown(path):
    assert texts(shown(f"{path}={OTHER[path]}")) != BASE


def test_no_value_is_claimed_twice():
    claimed = [path for part in (*ITEMS, *COLUMNS) for path in part.paths]
    assert len(claimed) == len(set(claimed))
    known = set(values_of(resolve([]).config))
    assert set(claimed) | IDENTITY <= known | {f"{path}" for path in leaf_paths()}
    assert {item.path for item in shown().rest} == known - set(claimed) - IDENTITY


def test_status_words():
    rows = {row.label: row for row in shown("aggregation.goal=5", "engine.abandon_after_s=5").rows}
    assert rows["abandon after"].status is Status.CHECK
    assert rows["target"].status is Status.DEFAULT
    assert rows["clients"].status is Status.DEFAULT
    assert shown("clients.num_clients=50").rows[7].status is Status.OK


def test_overridden_values_are_marked():
    found = shown("server.lr=0.5", overridden=("server.lr", "model.max_len", "data.batch_size"))
    knobs = {knob.title: knob.cells[0].is_overridden for knob in found.knobs}
    assert (knobs["lr"], knobs["K"]) == (True, False)
    assert {row.label for row in found.rows if row.is_overridden} == {"batch"}
    assert {item.path for item in found.rest if item.is_overridden} == {"model.max_len"}


def test_a_note_needs_not_be_there():
    found = shown("clients.num_clients=30000")
    rows = {row.label: row for row in found.rows}
    assert rows["trace"].note == rows["delays"].note == "not simulated"
