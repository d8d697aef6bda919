"""The gate through the command line: tables at any width, findings, exit codes, and what the run reads."""

import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from fluxctl.config.load import read_config
from fluxctl.runs.index import list_runs

SMALL = [
    "--model",
    "tiny",
    "--data",
    "synthetic",
    "--set",
    "data.train_per_class=200",
    "--set",
    "data.test_per_class=5",
]
MAIN = ["launch", "--run-set", "main", *SMALL]
BLOCKED = [*MAIN, "--set", "data.train_per_class=20"]  # 80 texts for 100 clients


def sections(text):
    """Lines between the bars, by the first word of each bar."""
    found, name = {}, ""
    for line in text.splitlines():
        if line.startswith("━━ "):
            name = line.strip("━ ")
            found[name] = []
        elif name:
            found[name].append(line)
    return found


def table(text):
    return sections(text)["2  systems"]


@pytest.mark.feature("E16")
@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_the_tables_are_aligned_at_any_width(fluxctl, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    answer = fluxctl(*MAIN, "--dry-run", "--show-all", "--set", "data.classes=[日本語, ünïcode, ф, x]")
    assert answer.code == 0
    assert "\x1b" not in answer.out
    lines = answer.out.splitlines()
    assert max(map(cell_len, lines)) <= columns
    bars = [line for line in lines if line.startswith("━━ ")]
    assert [cell_len(bar) for bar in bars] == [columns] * 4
    assert "日本語" in answer.out
    review = sections(answer.out)["1  review every run"]
    starts = {
        line.index(value)
        for value in ("tiny", "synthetic", "dirichlet", "syn_0", "lognormal")
        for line in review
        if f" {value}" in line and line[0] in "✓!·"
    }
    assert len(starts) == 1
    value_at = starts.pop()
    for line in review:  # continuation lines are indented to the values at least
        assert line[0] in "✓!·" or line[:value_at].strip() == ""
        assert line[0] not in "✓!·" or line[2:9].strip() in ("ok", "check", "default")
    for head in (line for line in table(answer.out) if line.startswith("baseline")):
        first = table(answer.out)[table(answer.out).index(head) + 1]
        for title in head.split()[1:3]:
            assert first[head.index(title) - 1] == " "


@pytest.mark.feature("E16")
def test_notes_hang_inside_the_width(fluxctl, monkeypatch):
    """One whole tier as it is printed: the label, value and note columns, and a hanging indent."""
    monkeypatch.setenv("COLUMNS", "80")
    review = sections(fluxctl(*MAIN, "--dry-run", "--max-bins", "9").out)["1  review every run"]
    at = next(index for index, line in enumerate(review) if " delays " in line)
    assert review[at : at + 2] == [
        "✓ ok       delays           lognormal 2 to 60 s, factor 2",
        "                              a task takes 1 to 29 s, half of them at most 5.5 s",
    ]
    assert "✓ ok       budget         ● 9 bins, 2 d" in review


@pytest.mark.feature("E16")
def test_notes_stand_beside_the_values_where_there_is_room(fluxctl, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    review = sections(fluxctl(*MAIN, "--dry-run").out)["1  review every run"]
    notes = [("tiny", "48 tokens"), ("syn_0", "everybody"), ("dirichlet, alpha 1", "8 texts of a client")]
    places = {line.index(note) for value, note in notes for line in review if f" {value} " in line}
    assert len(places) == 1


@pytest.mark.feature("E16")
def test_what_differs_and_what_was_set_is_said_without_colour(fluxctl, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    lines = table(fluxctl(*MAIN, "--dry-run", "--set", "server.lr=0.5").out)
    head, fwdllm, _, fluxtune = lines[:4]
    assert head.split()[:4] == ["baseline", "style", "K", "C"]
    assert (fwdllm.split()[:4], fluxtune.split()[:4]) == (
        ["fwdllm", "sync", "10", "10"],
        ["fluxtune", "async", "10", "30"],
    )
    assert fwdllm[head.index("lr") :].startswith("● 0.5")
    legend = lines[-1]
    assert legend.startswith("differ: style, C, selector")
    assert "K" not in legend.split(";")[0].replace("knowledge", "").split(", ")
    assert legend.endswith("● set for this launch")


@pytest.mark.feature("E16")
def test_colours_mark_differing_columns_names_and_overrides(fluxctl, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    answer = fluxctl("--color", "always", *MAIN, "--dry-run", "--set", "server.lr=0.5")
    head = next(line for line in answer.out.splitlines() if "baseline" in line and "style" in line)
    row = next(line for line in answer.out.splitlines() if "fwdllm " in line and "cosine_guided" in line)
    assert "\x1b[1;33mC" in head
    assert "\x1b[2mK" in head
    assert "\x1b[36mfwdllm" in row
    assert "\x1b[32m● " in row
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in fluxctl(*MAIN, "--dry-run").out


@pytest.mark.feature("E16")
@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_wide_names_stay_aligned_and_colour_changes_no_letter(fluxctl, monkeypatch, tmp_path, columns):
    """A character that takes two cells takes two in every column; colour is only added."""
    monkeypatch.setenv("COLUMNS", str(columns))
    variants = "{日本語: {server: {lr: 0.5}}, ünïcödé: {server: {lr: 0.25}}, плохо: {seed: 0}}"
    (tmp_path / "mine.yaml").write_text(
        f"description: 三つの系統\nbaselines: [fwdllm, fluxtune]\nvariants: {variants}\ncondition:\n"
        "  model: {name: tiny}\n  data: {source: synthetic, train_per_class: 200, test_per_class: 5}\n"
    )
    args = ["launch", "--run-set", "mine.yaml", "--dry-run", "--set", "gate.var_threshold=0.2"]
    plain = fluxctl(*args)
    assert plain.code == 0, plain.err
    lines = table(plain.out)
    assert max(map(cell_len, plain.out.splitlines())) <= columns
    for start in (number for number, line in enumerate(lines) if line.startswith("baseline")):
        head, body = lines[start], lines[start + 1 : start + 7]
        assert [line.split("  ")[0] for line in body][::2] == ["fwdllm 日本語", "fwdllm ünïcödé", "fwdllm плохо"]
        second = head.split()[1]
        at = head.index(second)
        for line in body:  # the second column begins at one cell in every row
            cells = line[: cut_at(line, at)]
            assert cells.endswith(" ")
            assert line[cut_at(line, at)] != " " or second == "gate"
    coloured = fluxctl("--color", "always", *args).out
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain.out


def cut_at(text, cells):
    """Where in a text so many cells of a terminal end."""
    return next(end for end in range(len(text) + 1) if cell_len(text[:end]) >= cells)


@pytest.mark.feature("E16")
def test_the_rest_is_one_line_unless_asked_for(fluxctl):
    collapsed = sections(fluxctl(*MAIN, "--dry-run").out)["3  everything else"]
    assert len(collapsed) == 2
    assert "--show-all lists them" in collapsed[0]
    opened = sections(fluxctl(*MAIN, "--dry-run", "--show-all").out)["3  everything else"]
    line = next(line for line in opened if "step.step_size" in line)
    assert line.split()[:3] == ["step.step_size", "0.01", "(default)"]
    assert len(opened) > 50


@pytest.mark.feature("E16", "E15")
@pytest.mark.parametrize(
    ("path", "value"),
    [("server.lr", "0.0625"), ("model.max_len", "47"), ("step.step_size", "0.03125"), ("limits.converge_window", "13"),
     ("engine.abandon_after_s", "91.5"), ("partition.alpha", "0.875"), ("data.classes", "[b, c, d]")],
)  # fmt: skip
def test_what_is_changed_is_in_the_table_and_in_the_runs_configuration(fluxctl, engine, tmp_path, path, value):
    args = [*MAIN, "--only", "fwdllm", "--show-all", "--set", f"{path}={value}"]
    told = fluxctl(*args, "--yes").err
    assert value.strip("[]") in told
    (info,) = list_runs(tmp_path / "runs")
    resolved = read_config(info.folder.config)
    found = resolved.config.model_dump(mode="json")
    for part in path.split("."):
        found = found[part]
    assert json.dumps(found).replace('"', "") == value
    assert path in json.loads(info.folder.gate.read_text())["overridden"]


@pytest.mark.feature("E18")
def test_the_fingerprint_is_shown_and_is_that_of_the_run(fluxctl, engine, tmp_path):
    told = fluxctl(*MAIN, "--only", "fwdllm", "--yes").err
    (info,) = list_runs(tmp_path / "runs")
    line = next(line for line in told.splitlines() if " condition " in line)
    assert info.record.fingerprints["condition"] in line


@pytest.mark.feature("E17", "E26")
def test_a_block_ends_the_launch_before_anything_runs(fluxctl, engine, tmp_path):
    answer = fluxctl(*BLOCKED, "--yes")
    assert answer.code == 2
    assert answer.out == ""
    assert "✗ BLOCK  20 of 100 clients would own no text" in answer.err
    assert "try: --clients 80, or --set data.train_per_class=25" in answer.err
    assert "error: the gate blocks this launch: 1 check failed (empty_client)" in answer.err
    assert "--force" in answer.err
    # who was refused, and why, is on record: one for each baseline, and no `latest`
    infos = list_runs(tmp_path / "runs")
    assert [info.record.baseline for info in infos] == ["fwdllm", "fwdllm_plus", "fluxtune"]
    for info in infos:
        assert (info.verdict.verdict, info.verdict.launch_code, info.status) == ("BLOCKED", 2, "ended")
        assert "empty_client: 20 of 100 clients would own no text" in info.verdict.reason
        assert json.loads(info.folder.gate.read_text())["status"] == "blocked"
        assert not info.folder.events.exists()
    assert not (tmp_path / "runs" / "latest").exists()


@pytest.mark.feature("E14", "E17")
def test_a_dry_run_answers_0_or_2(fluxctl, tmp_path):
    good, bad = fluxctl(*MAIN, "--dry-run"), fluxctl(*BLOCKED, "--dry-run")
    assert (good.code, bad.code) == (0, 2)
    assert "✓ PASS" in good.out
    assert "✗ BLOCKED" in bad.out
    assert "nothing was started" in good.err
    assert not (tmp_path / "runs").exists()
    told = fluxctl(*BLOCKED, "--dry-run", "--json").envelope
    assert (told["status"], told["error"]["code"]) == ("error", "gate")
    assert [finding["check"] for finding in told["data"]["gate"]["findings"]] == ["empty_client"]
    assert fluxctl(*MAIN, "--dry-run", "--json").envelope["data"]["gate"] == {"status": "ok", "findings": []}


@pytest.mark.feature("E17")
def test_force_overrides_and_is_recorded(fluxctl, engine, tmp_path):
    answer = fluxctl(*BLOCKED, "--only", "fwdllm", "--yes", "--force")
    assert answer.code == 0
    (info,) = list_runs(tmp_path / "runs")
    record = json.loads(info.folder.gate.read_text())
    assert (record["status"], record["forced"]) == ("blocked", True)
    assert record["findings"][0]["check"] == "empty_client"
    fluxctl(*MAIN, "--only", "fwdllm", "--yes", "--force")
    record = json.loads(list_runs(tmp_path / "runs")[-1].folder.gate.read_text())
    assert (record["status"], record["forced"], record["findings"]) == ("ok", False, [])


@pytest.mark.feature("E17")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--aggregation-goal", "11"], "goal (11) must not exceed concurrency (10)"),
        (["--concurrency", "200"], "concurrency (200) must not exceed clients.num_clients (100)"),
        (["--min-clients", "101"], "clients.min_clients (101) must not exceed clients.num_clients (100)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("force", [[], ["--force"]])  # no engine could run it, so nobody can force it
def test_impossible_numbers_are_refused_when_they_are_read(fluxctl, tmp_path, args, message, force):
    answer = fluxctl(*MAIN, "--only", "fwdllm", *args, *force, "--dry-run")
    assert answer.code == 2
    assert message in answer.err


@pytest.mark.feature("E17")
def test_a_trace_is_walked_through_without_training(fluxctl, tmp_path):
    """Pitfall: a barrier that could never assemble."""
    turns = [f"{client},{600 * client},AVL_TRAIN\n{client},{600 * client + 300},UN_AVL" for client in range(12)]
    never = [f"{client},0,UN_AVL" for client in range(12, 100)]
    (tmp_path / "turns.csv").write_text("\n".join(["client,t_s,state", *turns, *never]) + "\n")
    (tmp_path / "turns.yaml").write_text("description: d\nkind: file\npath: turns.csv\nexhaustion: hold\n")
    args = [*MAIN, "--only", "fwdllm", "--dry-run", "--max-runtime", "100m", "--avail-trace", "turns.yaml", "--json"]
    answer = fluxctl(*args)
    assert answer.code == 2
    checks = {finding["check"]: finding for finding in answer.envelope["data"]["gate"]["findings"]}
    found = checks["trace_starves"]
    assert "closes no cycle of 10 updates" in found["message"]
    assert "0.5 of 100 clients can be reached on average, fewer than 10 for 100% of the time" in found["message"]
    flag, goal = found["hint"].split()
    assert flag == "--aggregation-goal"
    assert fluxctl(*args, flag, goal).code == 0
    assert fluxctl(*args, flag, int(goal) + 1).code == 2  # it is the smallest change


@pytest.mark.feature("E17")
def test_sim_run_passes_the_same_gate(fluxctl, tmp_path):
    args = ["sim", "run", *BLOCKED[1:], "--only", "fwdllm", "--max-bins", "1", "--no-progress"]
    answer = fluxctl(*args)
    assert answer.code == 2
    assert "✗ BLOCK  20 of 100 clients would own no text" in answer.err
    assert "the gate blocks this launch" in answer.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.feature("E17")
def test_a_sweep_refuses_the_points_that_the_gate_blocks(fluxctl, engine, tmp_path):
    args = ["sim", "sweep", *MAIN[1:], "--only", "fwdllm", "--grid", "data.train_per_class=20,200"]
    answer = fluxctl(*args, "--json")
    told = answer.envelope
    assert (answer.code, told["error"]["code"]) == (2, "gate")
    first, second = told["data"]["points"]
    assert (first["verdict"], second["verdict"]) == ("REFUSED", "CONVERGED")
    assert "empty_client" in first["reason"]
    (run,) = (tmp_path / "runs").glob("sweep-*/2*")
    assert json.loads((run / "gate.json").read_text())["status"] == "ok"

    answer = fluxctl(*args, "--force", "--json")
    assert answer.code == 0
    assert [point["verdict"] for point in answer.envelope["data"]["points"]] == ["CONVERGED", "CONVERGED"]
    records = [json.loads(path.read_text()) for path in (tmp_path / "runs").glob("sweep-*/2*/gate.json")]
    assert sorted((record["status"], record["forced"]) for record in records) == [("blocked", True), ("ok", False)]

    answer = fluxctl("sim", "sweep", *MAIN[1:], "--only", "fwdllm", "--grid", "data.train_per_class=20,21")
    assert answer.code == 2
    assert "the gate blocks this launch" in answer.err


@pytest.mark.feature("E12")
@pytest.mark.parametrize(
    ("args", "window_s"),
    [(["--stall-window", "2h"], 7200.0), (["--stall-window-s", "90"], 90.0), (["--stall-window-h", "0.5"], 1800.0)],
)
def test_stall_flags(fluxctl, args, window_s):
    more = ["--stall-on", "loss", "--stall-min-delta", "0.02", "--loss-min-rel-delta", "0.03"]
    (run,) = fluxctl(*MAIN, "--only", "fwdllm", *args, *more, "--dry-run", "--json").envelope["data"]["runs"]
    limits = run["config"]["limits"]
    assert (limits["stall_window_s"], limits["stall_on"]) == (window_s, "loss")
    assert (limits["stall_min_delta"], limits["loss_min_rel_delta"]) == (0.02, 0.03)
    assert run["origins"]["limits.stall_window_s"] == f"flag {args[0]}"
    assert "loss (acc +0.02, loss -3 %)" in fluxctl(*MAIN, "--only", "fwdllm", *args, *more, "--dry-run").out


@pytest.mark.feature("E12")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--stall-window", "soon"], "'soon' is not a duration"),
        (["--stall-window", "2h1d"], "largest unit first"),
        (["--stall-window", "-2h"], "is not a duration"),
        (["--stall-window", "2h", "--stall-window-h", "2"], "the stall window is given more than once"),
        (["--stall-min-delta", "0"], "limits.stall_min_delta must be greater than 0"),
    ],
)
def test_stall_nonsense_is_refused(fluxctl, args, message):
    answer = fluxctl(*MAIN, "--only", "fwdllm", *args, "--dry-run")
    assert answer.code == 2
    assert message in answer.err


@pytest.mark.feature("E12")
def test_a_duration_is_told_back(fluxctl):
    answer = fluxctl(*MAIN, "--only", "fwdllm", "--max-runtime", "1d2h", "--stall-window", "90m", "--dry-run")
    assert "--max-runtime 1d2h is 1 d 2 h" in answer.err
    assert "1 h 30 min, either" in answer.out


@pytest.mark.demo
@pytest.mark.feature("E16")
def test_the_readme_shows_what_is_printed(fluxctl, monkeypatch):
    """Its first code block with a bar is the gate of main, at 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")
    printed = "\n".join(line.rstrip() for line in fluxctl("launch", "--run-set", "main", "--dry-run").out.splitlines())
    page = (Path(__file__).parents[2] / "README.md").read_text()
    shown = next(block.strip("\n") for block in page.split("```")[1::2] if "━━ 1 " in block)
    assert shown == printed, "put into README.md what `COLUMNS=100 fluxctl launch --run-set main --dry-run` prints"


@pytest.mark.feature("E17")
@pytest.mark.parametrize("more", [(), ("--force",)])
def test_an_unreadable_trace_is_named_with_its_line_and_cannot_be_forced(fluxctl, engine, tmp_path, more):
    (tmp_path / "bad.csv").write_text("client,t_s,state\n0,0,AVL_TRAIN\n0,soon,UN_AVL\n")
    answer = fluxctl(*MAIN, "--only", "fwdllm", "--yes", "--avail-trace", str(tmp_path / "bad.csv"), *more)
    assert answer.code == 2
    assert 'bad.csv:3: t_s must be a number of seconds, not "soon"' in answer.err.splitlines()[-2]
    assert "--force" not in answer.err
    assert [info.verdict.verdict for info in list_runs(tmp_path / "runs")] == ["BLOCKED"]
