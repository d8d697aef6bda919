"""What all tests share: reproducible property tests that no busy machine can make flaky, and a few recorded runs."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fluxctl", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("fluxctl")


@pytest.fixture(scope="session")
def recorded_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder with three small finished runs, made once by the real engine: read it, copy it, never change it.

    fluxtune with seeds 0 and 1, then fwdllm with seed 0: tiny model, generated texts, four bins.
    """
    from fluxctl import cli

    base = tmp_path_factory.mktemp("recorded")
    folder = base / "runs"
    common = [
        "sim",
        "run",
        "--run-set",
        "smoke",
        "--model",
        "tiny",
        "--data",
        "synthetic",
        "--max-bins",
        "4",
        "--no-progress",
    ]
    for setting in ("limits.divergence_guard=false", "data.train_per_class=60", "data.test_per_class=10"):
        common += ["--set", setting]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        patch.setenv("FLUXCTL_CACHE_DIR", str(base / "cache"))
        for baseline, seed in (("fluxtune", "0"), ("fluxtune", "1"), ("fwdllm", "0")):
            code = cli.main([*common, "--only", baseline, "--seed", seed, "--runs-dir", str(folder)])
            assert code == 0, (baseline, seed, code)
    return folder
