"""The program as a whole: start-up, help, usage, output channels."""

import json
import subprocess
import sys
from importlib import import_module, metadata

import pytest
import typer
from typer.testing import CliRunner

from fluxctl import cli
from fluxctl.errors import ExitCode

RUNNER = CliRunner()
COMMANDS = [
    [], ["launch"], ["runs"], ["runs", "list"], ["runs", "show"], ["runs", "path"], ["runs", "hash"],
    ["config"], ["config", "show"], ["config", "schema"], ["config", "validate"],
    ["sim"], ["sim", "run"], ["sim", "plan"], ["sim", "sweep"], ["sim", "check-determinism"], ["sim", "trace"],
    ["sim", "trace", "show"], ["sim", "trace", "generate"], ["sim", "trace", "convert"],
]  # fmt: skip


def python(code, **kwargs):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, **kwargs)


def test_help_imports_nothing_heavy():
    code = """
import sys
from fluxctl.cli import main
assert main(["--help"]) == 0
heavy = {"torch", "transformers", "numpy", "scipy", "pydantic", "ruamel", "plotly", "psutil"} & set(sys.modules)
assert not heavy, heavy
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert "launch" in done.stdout


def test_no_verb_imports_torch_in_the_launching_process(tmp_path):
    code = """
import sys
from fluxctl.cli import main
for line in ("runs list", "config show", "config schema", "launch --run-set main --dry-run"):
    main(line.split())
sys.exit("torch" in sys.modules)
"""
    assert python(code, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help(fluxctl, args, flag):
    answer = fluxctl(*args, flag)
    assert answer.code == 0
    assert "Usage: fluxctl" in answer.out
    assert answer.err == ""


@pytest.mark.parametrize("args", [[], ["runs"], ["config"]], ids=str)
def test_no_arguments_show_help(fluxctl, args):
    answer = fluxctl(*args)
    assert answer.code == 2
    assert "Usage: fluxctl" in answer.out + answer.err


def test_help_through_typers_own_runner():
    found = RUNNER.invoke(cli.app, ["--help"])
    assert found.exit_code == 0
    for verb, (_, summary) in cli.VERBS.items():
        assert verb in found.output
        assert summary in found.output


@pytest.mark.parametrize("verb", cli.VERBS)
def test_the_summaries_are_those_of_the_modules(verb):
    module, summary = cli.VERBS[verb]
    assert (typer.main.get_command(import_module(module).app).help or "").splitlines()[0] == summary


def test_version(fluxctl):
    assert fluxctl("--version").out == f"fluxctl {metadata.version('fluxctl')}\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["lanch"], "Did you mean 'launch'"),
        (["launch", "--run-st", "main"], "--run-set"),
        (["launch", "--max-bins", "ten"], "'--max-bins'"),
        (["launch", "--mode", "dream"], "'--mode'"),
        (["launch", "--delays", "maybe"], "'--delays'"),
        (["launch", "--jobs", "0"], "'--jobs'"),
        (["--color", "blue", "runs", "list"], "'--color'"),
        (["runs", "shw"], "No such command 'shw'"),
        (["config", "validate"], "Missing argument"),
    ],
)
def test_usage_mistakes(fluxctl, args, message):
    answer = fluxctl(*args)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert message in answer.err
    assert "--help" in answer.err


@pytest.mark.feature("G6")
def test_usage_mistakes_as_json(fluxctl):
    answer = fluxctl("launch", "--json", "--run-st", "x")
    assert answer.code == 2
    assert answer.envelope["status"] == "error"
    assert answer.envelope["command"] == "launch"
    assert answer.envelope["error"]["code"] == "usage"
    assert answer.err == ""


def broken(*args, **kwargs):
    raise KeyError("what")


def test_a_bug_says_that_it_is_one(fluxctl, monkeypatch):
    monkeypatch.setattr("fluxctl.runs.index.run_folders", broken)
    answer = fluxctl("runs", "list")
    assert answer.code == ExitCode.BUG
    assert "this is a bug in fluxctl" in answer.err
    assert "Traceback" not in answer.err
    monkeypatch.setenv("FLUXCTL_TRACEBACK", "1")
    assert "in broken" in fluxctl("runs", "list").err
    monkeypatch.setenv("FLUXCTL_TRACEBACK", "0")
    assert "Traceback" in fluxctl("-vv", "runs", "list").err
    told = fluxctl("runs", "list", "--json")
    assert (told.code, told.envelope["error"]["code"]) == (ExitCode.BUG, "bug")


def test_a_keyboard_interrupt_is_130(fluxctl, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("fluxctl.runs.index.run_folders", interrupt)
    assert fluxctl("runs", "list").code == ExitCode.INTERRUPTED


@pytest.mark.parametrize("args", [["config", "schema"], ["config", "show", "--origin"]], ids=str)
def test_a_closed_pipe_is_141_without_a_word(args, tmp_path):
    code = "import sys; from fluxctl.cli import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(30) == ExitCode.BROKEN_PIPE


def test_text_from_data_is_neither_markup_nor_control(fluxctl, tmp_path):
    (tmp_path / "x.yaml").write_text('server:\n  "[red]lr[/red]\\e[31m": 1\n')
    answer = fluxctl("--color", "always", "config", "validate", "x.yaml")
    assert answer.code == 2
    assert r"[red]lr[/red]\x1b[31m" in answer.err


@pytest.mark.feature("G6")
@pytest.mark.parametrize(
    ("args", "environ", "has_color"),
    [
        ([], {}, False),  # not a terminal
        ([], {"FORCE_COLOR": "1"}, False),
        (["--color", "always"], {}, True),
        (["--color", "never"], {}, False),
        (["--no-color", "--color", "always"], {}, False),
        ([], {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_color(fluxctl, monkeypatch, args, environ, has_color):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    answer = fluxctl(*args, "config", "validate", "nothing.yaml")
    assert answer.code == 2
    assert ("\x1b[" in answer.err) == has_color


@pytest.mark.feature("G6")
def test_every_json_answer_is_one_envelope(fluxctl):
    for args in (["runs", "list"], ["runs", "show"], ["runs", "path"], ["runs", "hash"], ["config", "show"],
                 ["config", "schema"], ["config", "validate", "nothing"], ["launch"]):  # fmt: skip
        answer = fluxctl(*args, "--json")
        (line,) = answer.out.splitlines()
        told = json.loads(line)
        assert list(told) == ["schema_version", "command", "status", "data", "error"], args
        assert (told["schema_version"], told["status"] == "error") == (1, answer.code != 0), args
        assert (told["error"] is None) == (answer.code == 0)
        if told["error"]:
            assert {"code", "message", "hint", "where"} <= set(told["error"])


def test_talk_that_nobody_hears_does_not_end_the_program(tmp_path):
    code = "import sys; from fluxctl.cli import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "launch", "--run-set", "main", "--dry-run"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path,
    )  # fmt: skip
    process.stderr.close()
    assert b"fluxtune" in process.stdout.read()
    process.stdout.close()
    assert process.wait(30) == 0
