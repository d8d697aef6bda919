import json

import pytest

from fluxctl.runs.files import JsonLines, read_json, tail, write_json, write_text


def test_a_failed_write_leaves_the_old_file_and_no_scratch(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "missing" / "a", "x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", '{"a": 1', "[" * 100_000])
def test_a_damaged_json_file_reads_as_none(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    assert read_json(tmp_path / "a.json") is None
    assert read_json(tmp_path / "missing.json") is None


def test_the_tail_is_read_from_the_end(tmp_path):
    path = tmp_path / "log"
    assert tail(path) == []
    path.write_text("".join(f"line {number}\n" for number in range(100_000)))
    assert tail(path, num_lines=2) == ["line 99998", "line 99999"]
    assert len(tail(path, num_lines=10_000, max_bytes=64)) <= 6


def test_lines_come_once_and_only_when_complete(tmp_path):
    path = tmp_path / "wall.jsonl"
    lines = JsonLines(path)
    assert lines.new() == []
    path.write_text('{"a": 1}\n{"a": ')
    assert lines.new() == [{"a": 1}]
    assert lines.new() == []
    with path.open("a") as file:
        file.write('2}\nnot json\n[3]\n{"a": 4}\n')
    assert lines.new() == [{"a": 2}, {"a": 4}]
