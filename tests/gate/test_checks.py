"""Gate checks: a request that each must pass and one that it must not, the numbers, and the change that helps."""

import numpy as np
import pytest

from fluxctl.commands._gate import walk_through
from fluxctl.config.load import resolve
from fluxctl.config.model import PartitionConfig
from fluxctl.config.override import from_set
from fluxctl.data.partition import partition
from fluxctl.gate.checks import CHECKS, FAMILIES, Level, examine, run_check
from fluxctl.gate.facts import CourseFacts, DeviceFacts, measured_alpha, task_passes
from fluxctl.gate.host import look_at, read_back
from fluxctl.types import Verdict

pytestmark = pytest.mark.feature("E17")
SMALL = ["model.name=tiny", "data.source=synthetic", "data.train_per_class=200", "clients.num_clients=40"]
RARE = "description: mostly away\nkind: slots\nslot_s: 600\nunavailable_frac: 0.9\n"


def look(*sets, defaults=SMALL, **kwargs):
    resolved = resolve([], [from_set(text) for text in (*defaults, *sets)])
    return look_at([(resolved, frozenset())], **kwargs)[0]


def found(*sets, **kwargs):
    return {finding.check: finding for finding in examine([look(*sets, **kwargs)])}


def test_an_ordinary_request_passes():
    assert found() == {}


@pytest.fixture
def rare(tmp_path):
    path = tmp_path / "rare.yaml"
    path.write_text(RARE)
    return f"availability.trace={path}"


@pytest.mark.parametrize(
    ("sets", "check", "level", "message", "hint"),
    [
        (["data.train_per_class=5"], "empty_client", "block", "20 of 40 clients would own no text", "--clients 20"),
        (["model.name=nowhere"], "usable_parts", "block", "there is no model 'nowhere'", ""),
        (["availability.trace=syn_21"], "usable_parts", "block", "there is no trace 'syn_21'", "syn_2"),
        (["model.adapter_blocks=[5]"], "supported_model", "block", "has 2 blocks", "-2 to 1"),
        (
            ["limits.max_runtime_s=3"], "reachable_goal", "block",
            "can deliver within the budget of 3 s", "--max-runtime",
        ),
        (
            ["aggregation.concurrency=20"], "over_commit", "warn",
            "asks 20 clients and cancels the last 10: 50%", "--concurrency 10",
        ),
        (["engine.abandon_after_s=5"], "abandon_after", "warn", "are given up while they compute", "abandon_after_s="),
        (
            ["partition.alpha=0.05", "clients.num_clients=10"], "alpha", "warn", "looks like alpha", "more clients",
        ),
        (["limits.target_accuracy=0.9"], "open_end", "warn", "the default budget of 2 d", "--stall-window 2h"),
        (
            ["mode=real", "limits.max_runtime_s=7200", "limits.max_wall_s=60"], "wall_ceiling", "warn",
            "the wall ceiling of 60 s cuts off a budget of 2 h", "limits.max_wall_s=7200",
        ),
        (["engine.num_workers=9999"], "num_workers", "warn", "9999 compute threads share", "num_workers="),
    ],
)  # fmt: skip
def test_what_is_found(sets, check, level, message, hint):
    findings = found(*sets)
    assert list(findings) == [check]
    assert findings[check].level == level
    assert message in findings[check].told.message
    assert hint in findings[check].told.hint


@pytest.mark.parametrize(
    ("sets", "check"),
    [
        (["data.train_per_class=5"], "empty_client"),
        (["aggregation.concurrency=20"], "over_commit"),
        (["engine.abandon_after_s=5"], "abandon_after"),
        (["limits.max_runtime_s=3"], "reachable_goal"),
    ],
)
def test_the_change_that_is_proposed_helps(sets, check):
    hint = found(*sets)[check].told.hint
    flags = {"--clients": "clients.num_clients", "--concurrency": "aggregation.concurrency", "--aggregation-goal":
             "aggregation.goal", "--set": ""}  # fmt: skip
    flag, value = hint.replace(",", "").split()[:2]
    change = value if flag == "--set" else f"{flags[flag]}={value}"
    # a goal may not exceed what is in flight, nor that the clients
    rest = [f"aggregation.concurrency={value}"] if flag in ("--clients", "--aggregation-goal") else []
    rest += [f"aggregation.goal={min(int(value), 10)}"] if flag == "--clients" else []
    assert check not in found(*sets, change, *rest)


def test_full_participation_under_a_trace(rare):
    full = ["aggregation.goal=40", "aggregation.concurrency=40", "limits.max_runtime_s=500000"]
    finding = found(*full, rare)["full_participation"]
    assert finding.level is Level.BLOCK
    assert "waits for all 40 clients" in finding.told.message
    assert "availability.trace=syn_0" in finding.told.hint
    assert "full_participation" not in found(*full)
    assert "full_participation" not in found("limits.max_runtime_s=500000", rare)
    assert "full_participation" not in found(*full, rare, "aggregation.style=async")


def test_a_trace_that_proves_the_request_infeasible(rare, tmp_path):
    """Pitfall: a barrier that could never assemble."""
    finding = found(rare, "limits.max_runtime_s=60")["reachable_goal"]
    assert finding.level is Level.BLOCK
    assert "no cycle can close: only" in finding.told.message
    assert "10 are needed (the first cycle could close at" in finding.told.message
    gone = tmp_path / "gone.csv"
    gone.write_text(
        "client,t_s,state\n" + "".join(f"{client},0,UN_AVL\n" for client in range(40)) + "0,9e6,AVL_TRAIN\n"
    )
    never = tmp_path / "never.yaml"
    never.write_text(f"description: nobody\nkind: file\npath: {gone}\nexhaustion: hold\n")
    finding = found(f"availability.trace={never}")["reachable_goal"]
    assert "(they never can)" in finding.told.message
    assert "a trace with more availability" in finding.told.hint


def trace_file(tmp_path, lines, exhaustion="hold"):
    (tmp_path / "trace.csv").write_text("client,t_s,state\n" + "".join(f"{line}\n" for line in lines))
    path = tmp_path / "trace.yaml"
    path.write_text(f"description: d\nkind: file\npath: {tmp_path / 'trace.csv'}\nexhaustion: {exhaustion}\n")
    return f"availability.trace={path}"


@pytest.fixture
def starved():
    """A course in which nothing commits."""
    return lambda config: CourseFacts(Verdict.STARVED, "nobody comes", 500.0, 0, 1.5, 0.8, largest_goal=2)


def test_a_walk_without_a_cycle_blocks_with_the_numbers(rare, starved):
    finding = found(rare, "limits.max_runtime_s=500000", walk=starved)["trace_starves"]
    assert finding.level is Level.BLOCK
    for part in ("closes no cycle of 10 updates in 8 min 20 s", "1.5 of 40 clients", "80% of the time", "nobody comes"):
        assert part in finding.told.message
    assert finding.told.hint == "--aggregation-goal 2"


def test_a_walk_that_starves_later_warns(rare):
    def walk(config):
        return CourseFacts(Verdict.STARVED, "nobody comes", 500.5, 12, 1.5, 0.8)

    finding = found(rare, "limits.max_runtime_s=500000", walk=walk)["trace_ends"]
    assert finding.level is Level.WARN
    assert "about 12 cycles" in finding.told.message
    assert "--max-runtime 500s" in finding.told.hint


def test_who_is_always_there_is_not_walked_through():
    assert look("availability.trace=syn_0", walk=pytest.fail).course is None


def test_the_walk_counts_and_finds_the_largest_goal(tmp_path):
    lines = [f"{client},0,AVL_TRAIN" for client in range(4)] + [f"{client},0,UN_AVL" for client in range(4, 40)]
    sets = [trace_file(tmp_path, lines), "limits.max_runtime_s=2000", "availability.knowledge=oracular"]
    course = walk_through(look(*sets).config)
    assert (course.num_cycles, course.largest_goal, course.reachable_mean) == (0, 4, 4.0)
    assert course.verdict is Verdict.STARVED
    smaller = walk_through(look(*sets, "aggregation.goal=4").config)
    assert smaller.num_cycles >= 1
    assert smaller.largest_goal == 0


@pytest.mark.parametrize(
    ("exhaustion", "budget_s", "blocks"), [("stop", 500, True), ("stop", 60, False), ("hold", 500, False)]
)
def test_a_recorded_trace_that_ends_before_the_run(tmp_path, exhaustion, budget_s, blocks):
    lines = [f"{client},{t},AVL_TRAIN" for client in range(40) for t in (0, 100)]
    findings = found(trace_file(tmp_path, lines, exhaustion), f"limits.max_runtime_s={budget_s}")
    assert ("trace_too_short" in findings) == blocks
    if blocks:
        told = findings["trace_too_short"].told
        assert "ends at 100 s, before the run's budget of 500 s" in told.message
        assert "lower limits.max_runtime_s" in told.hint


@pytest.mark.feature("E28", "E6")
@pytest.mark.parametrize(
    ("num_asked", "num_visible", "concurrency", "check", "message", "hint"),
    [
        (2, 0, 10, "visible_devices", "2 devices are asked for, and 0 devices are visible here", "--devices cpu"),
        (4, 1, 10, "visible_devices", "4 devices are asked for, and 1 device is visible here", "--devices 1"),
        (4, 4, 2, "device_use", "2 trainers leave 2 of 4 devices idle", "--devices 2"),
        (3, 4, 10, "device_use", "10 trainers on 3 devices: 4 on some, 3 on others", "--concurrency 9"),
        (2, 2, 10, "device_compute", "computes every step on the CPU", "leave --devices out"),
    ],
)
def test_devices(num_asked, num_visible, concurrency, check, message, hint):
    devices = DeviceFacts(num_asked, tuple(f"cuda:{index}" for index in range(num_visible)))
    sets = [f"aggregation.concurrency={concurrency}", f"aggregation.goal={min(10, concurrency)}"]
    findings = found(*sets, devices=devices)
    assert message in findings[check].told.message
    assert hint in findings[check].told.hint
    assert (findings[check].level is Level.BLOCK) == (check == "visible_devices")
    assert not {"visible_devices", "device_use", "device_compute"} & set(found(*sets, devices=DeviceFacts(0, ())))


def test_scarce_clients(rare):
    finding = found(rare, "limits.max_runtime_s=500000")["scarce_clients"]
    assert finding.level is Level.WARN
    assert "fewer than the 10 that shall be in flight" in finding.told.message


def test_runs_are_compared():
    a, b = look("baseline=a"), look("baseline=b", "aggregation.goal=5", "aggregation.concurrency=5", "seed=0")
    findings = {finding.check: finding for finding in examine([a, b])}
    assert "a 10, b 5" in findings["goals_differ"].told.message
    assert findings["goals_differ"].runs == ("a", "b")
    other = look("baseline=b", "data.batch_size=4")
    findings = {finding.check: finding for finding in examine([a, other])}
    assert "2 conditions" in findings["conditions_differ"].told.message
    assert a.prints.condition in findings["conditions_differ"].told.message


def test_what_runs_share_is_one_finding_and_blocks_come_first():
    sets = ["data.train_per_class=5", "aggregation.concurrency=20"]
    findings = examine([look("baseline=a", *sets), look("baseline=b", *sets)])
    assert [(finding.check, finding.runs) for finding in findings] == [
        ("empty_client", ("a", "b")), ("over_commit", ("a", "b")),
    ]  # fmt: skip


def test_names_are_unique():
    with pytest.raises(ValueError, match="registered twice"):
        run_check("alpha", Level.WARN)(CHECKS["alpha"].run)


def test_an_unsupported_model_names_the_estimator(tmp_path):
    folder = tmp_path / "gpt"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "gpt2", "num_hidden_layers": 3}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    finding = found(f"model.name={folder}", "step.estimator=jvp")["supported_model"]
    assert "estimator 'jvp' cannot run on" in finding.told.message
    assert "a model of type 'gpt2'" in finding.told.message
    assert finding.told.hint == "use a model of type bert, distilbert, roberta"
    (folder / "config.json").write_text('{"model_type": "bert", "num_hidden_layers": 3, "max_position_embeddings": 32}')
    assert "do not fit" in found(f"model.name={folder}")["supported_model"].told.message


def test_the_gate_knows_what_the_learner_knows():
    from fluxctl.learn import pretrained
    from fluxctl.learn.learner import passes_of_task

    assert set(FAMILIES) == set(pretrained.FAMILIES)
    for sets in (
        [], ["step.estimator=forward_difference"], ["step.estimator=jvp"], ["step.fast_path=false"],
        ["step.perturbation=max_jvp", "step.num_directions=10", "step.fast_path=false"], ["step.estimator=backprop"],
        ["step.estimator=local_sgd", "step.local_epochs=3", "step.local_batch_size=3"],
    ):  # fmt: skip
        config = resolve([], [from_set(text) for text in sets]).config
        assert task_passes(config) == passes_of_task(config.step, config.data.batch_size)


@pytest.mark.feature("E7")
@pytest.mark.parametrize("alpha", [0.5, 1.0, 5.0])
def test_measured_alpha_is_near_what_was_dealt(alpha):
    labels = np.repeat(np.arange(4), 3000)
    shards = partition(labels, 4, 300, PartitionConfig(alpha=alpha), 3, batch_size=8)
    assert measured_alpha(shards.class_counts) == pytest.approx(alpha, rel=0.3)


def test_measured_alpha_where_it_means_nothing():
    assert measured_alpha(np.array([[3, 3]])) is None
    assert measured_alpha(np.array([[3, 3], [5, 5]])) is None


@pytest.mark.feature("E16")
def test_the_configuration_is_read_back_as_the_run_will_read_it():
    resolved = resolve([], [from_set("baseline=Ünï 日本"), from_set("data.classes=[a, '2', 'null']")])
    assert read_back(resolved) == resolved.config
