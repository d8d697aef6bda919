"""The documentation is true where a machine can tell: links, names, commands, and nothing of anybody's machine."""

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fluxctl.cli import VERBS, main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TRACKED_FOLDERS = ("fluxctl", "presets", "tests", "docs", "benchmarks", ".ci")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ +(.+)$", read(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    for target in LINK.findall(read(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_resolve(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One two\n[a](gone.md) [b](#one-two) [c](#three) [d](page.md#one-two)\n")
    assert list(broken_links(page)) == ["gone.md", "#three"]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_lines_fit_and_sentences_are_finished(page: Path) -> None:
    prose = [line for line in read(page).splitlines() if not line.startswith("|")]
    assert [line for line in prose if len(line) > 130] == []
    assert re.findall(r"\b(?:TO" r"DO|FIX" r"ME|TBD|XXX)\b", read(page)) == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, to_visit = set(), [ROOT / "README.md"]
    while to_visit:
        page = to_visit.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = (target.partition("#")[0] for target in LINK.findall(read(page)) if "://" not in target)
        to_visit += [(page.parent / path).resolve() for path in targets if path.endswith(".md")]
    assert {page_id(page) for page in PAGES} - {page_id(page) for page in reached} == set()


def test_decisions_are_numbered_in_a_row_and_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    files = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [int(name[:4]) for name in files] == list(range(1, len(files) + 1))
    listed = [target for target in LINK.findall(read(folder / "README.md")) if target[0].isdigit()]
    assert listed == files
    for name in files:
        assert read(folder / name).startswith(f"# {name[:4]}: ")


def test_every_preset_is_in_the_readme() -> None:
    presets = sorted((ROOT / "presets").rglob("*.yaml"))
    assert len(presets) >= 7
    assert [path.stem for path in presets if f"`{path.stem}`" not in read(ROOT / "README.md")] == []


def test_every_package_and_engine_module_is_in_the_architecture() -> None:
    text = read(ROOT / "docs" / "architecture.md")
    package = ROOT / "fluxctl"
    packages = [path.parent.relative_to(package).as_posix() for path in package.rglob("__init__.py")]
    assert [name for name in packages if name != "." and f"{name}/" not in text] == []
    modules = [path.name for folder in ("engine", "learn") for path in (package / folder).glob("*.py")]
    assert [name for name in modules if name != "__init__.py" and f"`{name}`" not in text] == []


def test_the_architecture_names_no_module_that_is_not_there() -> None:
    names = set(re.findall(r"`(?:[\w]+/)*(\w+\.py)`", read(ROOT / "docs" / "architecture.md")))
    assert names - {path.name for path in (ROOT / "fluxctl").rglob("*.py")} == set()


def test_environment_variables_in_the_source_are_documented() -> None:
    # A name that ends in an underscore is a prefix, followed by the path of a key.
    used = {name for path in (ROOT / "fluxctl").rglob("*.py") for name in re.findall(r"FLUXCTL_[A-Z_]+", read(path))}
    variables = {name for name in used if not re.match(r"FLUXCTL_SET_.", name)}
    documented = set(re.findall(r"FLUXCTL_[A-Z_]+", read(ROOT / "docs" / "architecture.md")))
    assert len(variables) >= 5
    assert variables - documented == set()


def test_every_module_says_what_it_is() -> None:
    files = [path for folder in ("fluxctl", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py")]
    assert [page_id(path) for path in files if not ast.get_docstring(ast.parse(read(path)))] == []


def test_readme_installs_extras_that_exist() -> None:
    extras = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]["optional-dependencies"]
    wanted = {name for names in re.findall(r"'\.\[([a-z,]+)\]'", read(ROOT / "README.md")) for name in names.split(",")}
    assert wanted == {"demo", "test"}
    assert wanted <= set(extras)


def documented_commands() -> list[str]:
    """Command lines of fluxctl in all pages, and those of the feature table, without their ``fluxctl``."""
    found: set[str] = set()
    for page in PAGES:
        text = read(page)
        found |= set(re.findall(r"`fluxctl ([^`|\\]+)`", text))
        for block in re.findall(r"^```\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
            found |= set(re.findall(r"\bfluxctl ([a-z][^\n&|#]*)", block))
    table = read(ROOT / "docs" / "features.md")
    found |= set(re.findall(r"\| (?:done|partly) \| `([^`]+)` \|", table))
    return sorted(command.strip() for command in found)


def test_documented_verbs_exist() -> None:
    verbs = {words[0] for command in documented_commands() if (words := shlex.split(command))[0].isalpha()}
    assert verbs <= set(VERBS)
    readme = read(ROOT / "README.md")
    assert [verb for verb in VERBS if f"fluxctl {verb}" not in readme] == []


LAUNCHES = [command for command in documented_commands() if command.startswith("launch --")]


@pytest.mark.parametrize("command", LAUNCHES)
def test_documented_launches_are_accepted(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("FLUXCTL_RUNS_DIR", "FLUXCTL_NO_PROGRESS"):
        monkeypatch.delenv(name, raising=False)
    is_refused = "--aggregation-goal 200" in command  # shows a refusal: K above N
    if "FOLDER" in command:  # stands for a model of the reader's
        command = command.replace("FOLDER", "tiny")
    assert main([*shlex.split(command), "--dry-run"]) == (2 if is_refused else 0), capsys.readouterr().err


def test_documented_launches_are_found() -> None:
    assert len(LAUNCHES) > 20
    assert "launch --run-set main --yes" in LAUNCHES


# Somebody's machine or network; written in pieces, so that this file does not match itself.
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:" + "ro" + "ot|wo" + "rk|ho" + r"me|Us" + r"ers)(?:/|\b)")
HOST = re.compile(r"\bhttps?://([^/\s\"'`)>]+)")
PUBLIC_HOSTS = {"arxiv.org", "doi.org", "github.com", "json-schema.org", "www.apache.org", "peps.python.org"}


def foreign(text: str) -> list[str]:
    """Paths and hosts in a text that mean nothing elsewhere."""
    hosts = [host for host in HOST.findall(text) if host.lower() not in PUBLIC_HOSTS]
    return hosts + [match.group() for match in MACHINE_PATH.finditer(text)]


def tracked_files() -> list[Path]:
    files = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in TRACKED_FOLDERS:
        files += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    return [path for path in files if "__pycache__" not in path.parts]


def test_no_file_knows_anybodys_machine() -> None:
    found = {page_id(path): foreign(path.read_text(encoding="utf-8", errors="replace")) for path in tracked_files()}
    assert len(found) > 100
    assert {name: what for name, what in found.items() if what} == {}


def test_foreign_paths_and_hosts_are_noticed() -> None:
    home, host = "/ho" + "me/ada", "https" + "://mirror.example/simple"
    assert foreign(f"see {home}/notes") == ["/ho" + "me/"]
    assert foreign(f"pip --index-url {host}") == ["mirror.example"]
    assert foreign("https://arxiv.org/abs/2308.13894 and $work/cache, the network/workload") == []
