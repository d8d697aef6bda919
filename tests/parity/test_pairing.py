"""Which runs are compared, and which are refused."""

from __future__ import annotations

import json

import pytest

from fluxctl.errors import ConfigError, ExitCode, NothingToDoError, UnknownNameError
from fluxctl.parity.pairing import latest_pairs, named_pair, twin_pair
from fluxctl.parity.reading import observe
from fluxctl.types import Mode


@pytest.fixture
def runs(tmp_path, make_run, make_config):
    """A runs folder and a way to put small runs into it; times of creation count up."""

    class Runs:
        folder = tmp_path / "runs"
        num = 0

        def add(self, baseline="fwdllm", mode=Mode.SIM, seed=0, pair="p", group="g", edit=None, variant="", **sections):
            self.num += 1
            word = f"2026010{self.num // 60}-00{self.num % 60:02d}00-x-{baseline}-{mode.value}-{self.num:04x}"
            config = make_config(mode, baseline=baseline, variant=variant, seed=seed, **sections)
            created = f"2026-01-01T00:{self.num:02d}:00+00:00"
            return make_run(self.folder / word, mode, edit, config, pair=pair, group=group, created=created, num_bins=2)

        def add_pair(self, baseline="fwdllm", **how):
            return self.add(baseline, Mode.SIM, **how), self.add(baseline, Mode.REAL, **how)

    runs = Runs()
    runs.folder.mkdir()
    return runs


def found(pairs):
    return [(pair.baseline, pair.left.events.parent, pair.right.events.parent) for pair in pairs]


@pytest.mark.feature("D0h")
class TestLatest:
    def test_one_pair_a_baseline_of_the_newest_launch_with_the_real_run_on_the_left(self, runs) -> None:
        runs.add_pair("fwdllm", pair="old", group="old")
        sims = [runs.add_pair(name, pair=f"new-{name}", group="new") for name in ("fwdllm", "fluxtune")]
        runs.add("fluxtune", Mode.SIM, pair=None, group="alone")
        expected = [(name, real, sim) for name, (sim, real) in zip(("fwdllm", "fluxtune"), sims, strict=True)]
        assert found(latest_pairs(runs.folder)) == expected
        assert found(latest_pairs(runs.folder, ["fluxtune"])) == expected[1:]

    def test_names_of_directories_do_not_matter(self, runs) -> None:
        sim, real = runs.add_pair()
        odd = sim.rename(sim.with_name("20990101-000000-liar-fluxtune-real-ffff"))
        assert found(latest_pairs(runs.folder)) == [("fwdllm", real, odd)]

    def test_runs_of_one_request_go_together(self, runs) -> None:
        first = runs.add_pair(pair="one")
        runs.add(mode=Mode.SIM, pair="other")
        assert found(latest_pairs(runs.folder))[0][1:] == (first[1], first[0])

    def test_runs_that_were_started_apart_are_paired_by_what_they_were_asked(self, runs) -> None:
        runs.add(mode=Mode.SIM, seed=1, pair=None, group=None)
        runs.add(mode=Mode.SIM, pair=None, group=None, aggregation={"goal": 4, "concurrency": 5})
        sim = runs.add(mode=Mode.SIM, pair=None, group=None)
        real = runs.add(mode=Mode.REAL, pair=None, group=None)
        assert found(latest_pairs(runs.folder)) == [("fwdllm", real, sim)]

    def test_pairs_of_other_seeds_are_counted_and_variants_are_baselines_of_their_own(self, runs) -> None:
        for seed in (0, 1, 2):
            runs.add_pair(seed=seed, pair=f"p{seed}")
        runs.add_pair(variant="syn_20", pair="v")
        pairs = latest_pairs(runs.folder)
        assert [(pair.baseline, pair.num_others) for pair in pairs] == [("fwdllm", 2), ("fwdllm syn_20", 0)]
        assert [pair.baseline for pair in latest_pairs(runs.folder, ["fwdllm syn_20"])] == ["fwdllm syn_20"]
        assert len(latest_pairs(runs.folder, ["fwdllm"])) == 2

    def test_without_a_pair_it_says_what_is_missing(self, runs) -> None:
        with pytest.raises(NothingToDoError, match="no runs"):
            latest_pairs(runs.folder)
        sim = runs.add()
        with pytest.raises(NothingToDoError, match="no real runs") as caught:
            latest_pairs(runs.folder)
        assert caught.value.exit_code is ExitCode.NOTHING_TO_DO
        assert "--mode both" in str(caught.value.hint)
        real = runs.add(mode=Mode.REAL, seed=5)
        with pytest.raises(NothingToDoError, match="no real run has a simulated twin"):
            latest_pairs(runs.folder)
        with pytest.raises(NothingToDoError, match="has no sim twin"):
            twin_pair(real.name, runs.folder)
        with pytest.raises(NothingToDoError, match="has no real twin"):
            twin_pair(sim.name, runs.folder)
        with pytest.raises(UnknownNameError, match="nonsense"):
            latest_pairs(runs.folder, ["nonsense"])

    def test_a_run_that_is_still_running_is_no_partner_yet(self, runs) -> None:
        _, real = runs.add_pair()
        (real / "verdict.json").unlink()
        record = json.loads((real / "run.json").read_text())
        (real / "run.json").write_text(json.dumps(record | {"status": "running"}))
        with pytest.raises(NothingToDoError, match="still running"):
            latest_pairs(runs.folder)
        with pytest.raises(ConfigError, match="has not ended"):
            named_pair("latest", "latest~1", runs.folder)


class TestNamed:
    def test_by_words_by_paths_and_by_event_files_the_real_run_comes_left(self, runs) -> None:
        sim, real = runs.add_pair()
        words = [("latest~1", "latest"), ("fwdllm:sim", "fwdllm:real"), (str(sim), str(real)), (sim.name, real.name)]
        for left, right in [*words, (str(sim / "events.jsonl"), str(real / "events.jsonl"))]:
            assert found([named_pair(left, right, runs.folder)]) == [("fwdllm", real, sim)]
        assert found([twin_pair("fwdllm:sim", runs.folder)]) == [("fwdllm", real, sim)]
        assert named_pair(str(sim), str(real), runs.folder).labels == ("real", "sim")

    def test_a_bare_event_file_says_its_clock_itself(self, runs, tmp_path) -> None:
        sim, real = runs.add_pair()
        for folder, name in ((sim, "a.jsonl"), (real, "b.jsonl")):
            (tmp_path / name).write_bytes((folder / "events.jsonl").read_bytes())
        pair = named_pair(str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), runs.folder)
        assert (pair.left.mode, pair.left.folder, pair.baseline) == (Mode.REAL, None, "b.jsonl")
        left, right = observe(pair)
        assert (left.num_units, right.num_units, left.config) == (2, 2, None)
        (tmp_path / "c.jsonl").write_text('{"event":"header","schema_version":1,"identity":{}}\n')
        with pytest.raises(ConfigError, match="which clock"):
            named_pair(str(tmp_path / "a.jsonl"), str(tmp_path / "c.jsonl"), runs.folder)

    def test_a_run_is_not_compared_with_itself(self, runs) -> None:
        sim, _ = runs.add_pair()
        with pytest.raises(ConfigError, match="itself"):
            named_pair(str(sim), str(sim / "events.jsonl"), runs.folder)

    def test_a_directory_that_is_no_run_is_named(self, runs, tmp_path) -> None:
        runs.add_pair()
        (tmp_path / "other").mkdir()
        with pytest.raises(UnknownNameError, match="not that of a run"):
            named_pair("latest", str(tmp_path / "other"), runs.folder)


class TestRefusals:
    def test_different_settings_are_shown(self, runs) -> None:
        sim = runs.add(selection={"policy": {"name": "round_robin"}}, limits={"max_bins": 7, "max_wall_s": 9.0})
        real = runs.add(mode=Mode.REAL)
        with pytest.raises(ConfigError, match="not asked to do the same") as caught:
            observe(named_pair(str(real), str(sim), runs.folder))
        lines = str(caught.value.snippet).splitlines()
        assert sorted(line.strip() for line in lines) == [
            "limits.max_bins: 30 and 7",
            "selection.policy.name: random and round_robin",
        ]  # the mode and the wall limit may differ

    def test_many_different_settings_are_cut(self, runs) -> None:
        numbers = {name: 0.25 for name in ("momentum", "beta1", "beta2", "eps", "lr", "warmup_ratio")}
        sim = runs.add(
            server=numbers,
            delays={"low_s": 2.0, "high_s": 3.0, "factor": 2.0, "model": "uniform"},
            seed=3,
            baseline="x",
        )
        real = runs.add(mode=Mode.REAL)
        with pytest.raises(ConfigError) as caught:
            observe(named_pair(str(real), str(sim), runs.folder))
        assert "more" in str(caught.value.snippet).splitlines()[-1]
        assert len(str(caught.value.snippet).splitlines()) == 11

    @pytest.mark.parametrize("name", ["model_hash", "data_hash"])
    def test_other_inputs_behind_one_configuration(self, runs, name) -> None:
        def with_hash(value):
            return lambda event: event | {name: value} if event["event"] == "run_meta" else event

        sim = runs.add(edit=with_hash("aa"))
        real = runs.add(mode=Mode.REAL, edit=with_hash("bb"))
        with pytest.raises(ConfigError, match="aa"):
            observe(named_pair(str(real), str(sim), runs.folder))

    def test_bare_files_with_other_fingerprints(self, runs, tmp_path) -> None:
        for name, mode in (("a", "sim"), ("b", "real")):
            header = {"event": "header", "schema_version": 1, "identity": {"mode": mode}, "config_hash": name * 16}
            (tmp_path / name).write_text(json.dumps(header) + "\n")
        with pytest.raises(ConfigError, match="cannot be compared") as caught:
            observe(named_pair(str(tmp_path / "a"), str(tmp_path / "b"), runs.folder))
        assert "bbbbbbbbbbbbbbbb and aaaaaaaaaaaaaaaa" in str(caught.value.snippet)

    @pytest.mark.parametrize(
        ("content", "kind", "words"),
        [
            ("", NothingToDoError, "empty"),
            ('{"event":"header","schema_version":1}\n', NothingToDoError, "committed nothing"),
            ('{"event":"header","schema_version":99}\n', ConfigError, "schema version 99"),
            ("no json\n", ConfigError, "no line of it"),
            ('{"event":"agg_round"}\n', ConfigError, "header"),
        ],
    )
    def test_event_files_that_hold_nothing_to_compare(self, runs, content, kind, words) -> None:
        sim, real = runs.add_pair()
        (sim / "events.jsonl").write_text(content)
        with pytest.raises(kind, match=words):
            observe(named_pair(str(real), str(sim), runs.folder))

    def test_an_event_file_that_cannot_be_read(self, runs) -> None:
        sim, real = runs.add_pair()
        pair = named_pair(str(real), str(sim), runs.folder)
        (sim / "events.jsonl").unlink()
        (sim / "events.jsonl").mkdir()
        with pytest.raises(ConfigError, match="cannot read"):
            observe(pair)

    def test_a_damaged_configuration_is_done_without(self, runs) -> None:
        sim, real = runs.add_pair()
        (sim / "config.yaml").write_text("no: such: yaml")
        _, right = observe(named_pair(str(real), str(sim), runs.folder))
        assert right.config is None
