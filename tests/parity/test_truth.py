"""States as events tell them, and as the configuration implies them."""

from __future__ import annotations

import numpy as np
import pytest

from fluxctl.parity.truth import StateLog, are_close, distances, modelled_world, observed_states, traced_world
from fluxctl.types import NS_PER_S, Mode
from fluxctl.world.availability import CODES

TRAIN, EVAL, AWAY = CODES["AVL_TRAIN"], CODES["AVL_EVAL"], CODES["UN_AVL"]


def test_a_log_answers_at_any_time() -> None:
    log = StateLog([np.array([0, 10, 30])], [np.array([TRAIN, AWAY, EVAL], np.int8)])
    assert log.at(0, np.array([0, 9, 10, 29, 30, 99])).tolist() == [TRAIN, TRAIN, AWAY, AWAY, EVAL, EVAL]
    shares = log.shares(0, 40)
    assert [shares[TRAIN], shares[AWAY], shares[EVAL]] == [0.25, 0.5, 0.25]
    assert log.shares(0, 10)[TRAIN] == 1.0


def test_states_begin_with_what_the_first_change_came_from(pair) -> None:
    def only_client_3(event):
        if event["event"] != "avail_change":
            return event
        return event | {"t_ns": 5 * NS_PER_S, "old": "AVL_EVAL"} if event["client"] == 3 and not event["t_ns"] else None

    run = pair(only_client_3)[0]
    log = observed_states(run, 10 * NS_PER_S)
    assert log.shares(3, 10 * NS_PER_S)[EVAL] == 0.5
    assert log.shares(4, 10 * NS_PER_S)[TRAIN] == 1.0  # nothing was told, and the trace says so
    assert log.shares(3, 5 * NS_PER_S)[EVAL] == 1.0


def test_worlds_that_cannot_be_built_say_why(pair, make_config, observe) -> None:
    run = pair()[0]
    assert "always available" in traced_world(run)
    bare = observe(run.folder / "events.jsonl", Mode.REAL)
    assert "no configuration" in modelled_world(bare)
    lost = pair(configs=(make_config(Mode.REAL, availability={"trace": "gone.csv"}), None))[0]
    assert "cannot be built" in modelled_world(lost)


def test_distances_between_shares() -> None:
    left, right = np.array([[1.0, 0, 0], [0.5, 0.5, 0]]), np.array([[0.0, 0, 1], [0.5, 0.5, 0]])
    assert distances(left, right).tolist() == [1.0, 0.0]
    assert are_close(np.array([0.0, 0.1] + [0.0] * 18))
    assert not are_close(np.array([0.5] * 2 + [0.0] * 18))  # 95 % of the clients
    assert not are_close(np.full(20, 0.06))


def test_a_run_without_any_change_is_absent(pair) -> None:
    with pytest.raises(LookupError):
        observed_states(pair(lambda event: None if event["event"] == "avail_change" else event)[0], 1)
