"""Commands that start again what was interrupted: planned again, they are the runs that are left."""

import shlex

import pytest
import typer

from fluxctl.commands._again import again
from fluxctl.commands._options import names, seed_list
from fluxctl.commands._request import Request, make_plan
from fluxctl.commands.launch import app
from fluxctl.types import Mode

pytestmark = pytest.mark.feature("E22")
SMOKE = ["--run-set", "smoke"]


def read(args):
    """How the program was called, and the plan of that."""
    ctx = typer.main.get_command(app).make_context("launch", list(args))
    given = ctx.params
    modes = () if given["mode"] is None else (Mode.SIM, Mode.REAL) if given["mode"] == "both" else (given["mode"],)
    request = Request(
        run_set=given["run_set"],
        only=names(given["only"]),
        modes=modes,
        seeds=seed_list(given["seeds"]) if given["seeds"] is not None else (),
    )
    return ctx, make_plan(request).runs


def units(runs):
    return {(run.config.seed, run.config.baseline, run.config.variant, run.config.mode) for run in runs}


@pytest.mark.parametrize(
    ("args", "num_done", "commands"),
    [
        ([], 0, ["fluxctl launch --run-set smoke"]),
        ([], 1, ["fluxctl launch --run-set smoke --only fwdllm_plus,fluxtune"]),
        (["--only=fluxtune", "-y"], 0, ["fluxctl launch --run-set smoke --yes --only fluxtune"]),
        (["--only", "fwdllm", "--only", "fluxtune"], 1, ["fluxctl launch --run-set smoke --only fluxtune"]),
        (
            ["--seeds", "0..2"],
            4,
            [
                "fluxctl launch --run-set smoke --only fwdllm_plus,fluxtune --seeds 1",
                "fluxctl launch --run-set smoke --seeds 2",
            ],
        ),
        (["--seeds", "3,1", "--only", "fwdllm"], 0, ["fluxctl launch --run-set smoke --only fwdllm --seeds 3,1"]),
        (["--mode", "both"], 3, ["fluxctl launch --run-set smoke --mode both --only fwdllm_plus,fluxtune"]),
        (
            ["--seed", "4", "-s", "server.lr=0.5", "-s", "data.classes=[a, b]", "--jobs", "2", "--clean"],
            2,
            [
                "fluxctl launch --run-set smoke --set server.lr=0.5 --set 'data.classes=[a, b]' --jobs 2 --clean "
                "--only fluxtune --seed 4"
            ],
        ),
    ],
)
def test_what_is_left_is_started_again(args, num_done, commands):
    ctx, runs = read([*SMOKE, *args])
    assert again(ctx, runs, runs[num_done:], {}) == commands
    planned = set().union(*(units(read(shlex.split(command)[2:])[1]) for command in commands))
    assert units(runs[num_done:]) <= planned <= units(runs)
    halves = {(seed, baseline) for seed, baseline, _, _ in units(runs[num_done:])}
    assert {(seed, baseline) for seed, baseline, _, _ in planned} == halves


def test_a_baseline_is_started_again_with_all_its_variants():
    ctx, runs = read(["--run-set", "unavailability"])
    baselines = list(dict.fromkeys(run.config.baseline for run in runs))
    last = [run for run in runs if run.config.baseline == baselines[-1]][-1:]
    assert again(ctx, runs, last, {}) == [f"fluxctl launch --run-set unavailability --only {baselines[-1]}"]


def test_settings_from_the_environment_are_repeated():
    ctx, runs = read(SMOKE)
    environ = {"FLUXCTL_SET_SERVER__LR": "0.5", "FLUXCTL_SET_DATA__CLASSES": "[a, b]", "HOME": "x"}
    assert again(ctx, runs, runs, environ) == [
        "FLUXCTL_SET_DATA__CLASSES='[a, b]' FLUXCTL_SET_SERVER__LR=0.5 fluxctl launch --run-set smoke"
    ]


def test_nothing_is_left():
    ctx, runs = read(SMOKE)
    assert again(ctx, runs, [], {}) == []
