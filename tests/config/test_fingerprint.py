import pytest

from fluxctl.config.fingerprint import (
    CONDITION,
    WALL_ONLY,
    condition_differences,
    config_differences,
    fingerprints,
    run_differences,
)
from fluxctl.config.load import resolve
from fluxctl.config.model import Config
from fluxctl.config.override import from_set
from fluxctl.config.schema import leaf_paths, section_at

# One other value for every leaf of the model: nothing is left out of the tests by accident.
OTHER = {
    "run_set": "x", "baseline": "x", "mode": "real", "seed": "1", "model.name": "tiny", "model.max_len": "47",
    "model.adapter_blocks": "[]", "model.adapter_dim": "8", "data.source": "synthetic", "data.classes": "[a, b]",
    "data.train_per_class": "1", "data.test_per_class": "1", "data.batch_size": "9", "partition.method": "uniform",
    "partition.alpha": "0.1", "clients.num_clients": "101", "clients.min_clients": "2",
    "availability.knowledge": "oracular", "delays.enabled": "false", "delays.model": "uniform", "delays.factor": "2",
    "delays.low_s": "3", "delays.high_s": "61", "delays.compute_frac": "0.5", "delays.compute_model": "per_pass",
    "delays.reference_passes": "3", "selection.policy.name": "x", "selection.policy.params": "{a: 1}",
    "selection.per": "bin", "step.estimator": "jvp", "step.step_size": "0.1", "step.perturbation": "cosine_guided",
    "step.num_candidates": "11", "step.alternate": "false", "step.fast_path": "false", "gate.enabled": "false",
    "gate.var_threshold": "0.1", "gate.tracked_tensor": "all", "gate.stopping_policy": "plateau",
    "gate.max_iterations_per_bin": "3", "gate.plateau_window": "4", "gate.plateau_min_drop": "0.2",
    "aggregation.style": "async", "aggregation.goal": "9", "aggregation.concurrency": "11",
    "aggregation.rate.name": "x", "aggregation.rate.params": "{a: 1}", "aggregation.staleness.name": "x",
    "aggregation.staleness.params": "{a: 1}", "server.lr": "0.1", "messages.suppress_redundant_weights": "false",
    "limits.max_bins": "1", "limits.max_rounds": "1", "limits.max_runtime_s": "1", "limits.max_wall_s": "1",
    "limits.target_accuracy": "0.5", "limits.converge_window": "3", "limits.divergence_guard": "false",
    "engine.charge_compute": "measured", "engine.commit_order": "arrival", "engine.reorder_slack_s": "1",
    "engine.abandon_after_s": "91", "engine.on_trainer_error": "drop", "engine.trainer_retries": "2",
    "variant": "x", "availability.trace": "syn_20", "availability.num_states": "2",
    "availability.notify_latency_s": "1", "availability.heartbeat_every_s": "31", "availability.allowed_misses": "4",
    "availability.on_unavailable": "pause", "availability.evict": "false", "availability.on_lost": "shrink",
    "delays.pareto_shape": "2", "delays.zipf_exponent": "2", "delays.registry": "x.csv",
    "delays.registry_assign": "draw", "delays.straggler_spread_s": "1", "links.model": "constant",
    "links.down_bytes_per_s": "1", "links.up_bytes_per_s": "1", "links.log_sd": "1", "step.local_lr": "0.1",
    "step.local_epochs": "2", "step.local_batch_size": "9", "step.local_scope": "shard",
    "aggregation.refill": "staggered", "aggregation.stagger_s": "2", "aggregation.control.name": "x",
    "aggregation.control.params": "{a: 1}", "server.optimizer": "adam", "server.momentum": "0.5",
    "server.beta1": "0.5", "server.beta2": "0.5", "server.eps": "0.1", "server.clip_norm": "1",
    "server.schedule": "linear", "server.warmup_ratio": "0.5", "server.on_divergence": "rollback",
    "server.max_rollbacks": "2", "server.rollback_lr_factor": "0.1", "messages.weights": "delta",
    "messages.update": "seed_scalar", "engine.charge_evaluation": "modelled", "engine.evaluation_s": "2",
    "limits.stall_window_s": "1", "limits.stall_on": "acc", "limits.stall_min_delta": "0.5",
    "limits.loss_min_rel_delta": "0.5",
    "engine.num_workers": "1", "engine.wall_factor": "2", "engine.register_timeout_s": "1", "engine.fault_client": "0",
    "telemetry.step_memory": "false", "telemetry.step_timing": "true",
}  # fmt: skip
NEEDS = {"step.num_directions": ["step.perturbation=max_jvp"]}


def prints(*sets):
    return fingerprints(resolve([], [from_set(text) for text in sets]).config)


def within(path, owners):
    return any(path == owner or path.startswith(owner + ".") for owner in owners)


def test_the_table_covers_the_model():
    assert set(leaf_paths()) == set(OTHER) | set(NEEDS)


@pytest.mark.feature("E18")
@pytest.mark.parametrize("path", sorted(OTHER))
def test_what_each_value_changes(path):
    base, other = prints(), prints(f"{path}={OTHER[path]}")
    assert (other.condition != base.condition) == within(path, CONDITION)
    assert (other.run != base.run) == (not within(path, WALL_ONLY))
    assert (other.seedless != base.seedless) == (not within(path, WALL_ONLY) and path != "seed")


@pytest.mark.feature("E18")
def test_directions_change_the_run_but_not_the_condition():
    base, other = prints("step.perturbation=max_jvp"), prints("step.perturbation=max_jvp", "step.num_directions=10")
    assert base.condition == other.condition
    assert base.run != other.run


def test_every_named_path_exists():
    leaves = set(leaf_paths())
    for path in (*CONDITION, *WALL_ONLY):
        assert path in leaves or section_at(path.split(".")) is not None, path


def test_the_origin_of_a_value_does_not_count():
    assert prints("seed=0") == prints()


def test_the_spelling_of_a_number_does_not_count():
    assert prints("server.lr=1") == prints("server.lr=1.0")


def test_differences_are_dotted_in_order_and_an_empty_mapping_is_a_value():
    left = Config()
    right = Config(seed=4, data={"classes": ("a", "b"), "batch_size": 4})
    found = config_differences(left, right)
    assert list(found) == ["seed", "data.classes", "data.batch_size"]
    assert found["data.batch_size"] == (8, 4)
    assert config_differences(left, left) == {}
    assert run_differences(left, right) == found
    assert list(condition_differences(left, right)) == ["data.classes", "data.batch_size"]
    with_params = Config(selection={"policy": {"name": left.selection.policy.name, "params": {"pace": 2}}})
    assert left.selection.policy.params == {}
    assert config_differences(left, with_params) == {
        "selection.policy.params": ({}, None),
        "selection.policy.params.pace": (None, 2),
    }
