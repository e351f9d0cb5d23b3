"""What SECURITY.md says is never done: the package's text has none of the calls that would run what is read."""

from __future__ import annotations

import re
from pathlib import Path

from grpo_runner import cli

ROOT = Path(__file__).resolve().parents[1]
RUNS_DATA = re.compile(
    r"torch\.load\(|^\s*(?:import|from) pickle|\bpickle\.loads?\(|trust_remote_code\s*=\s*True|yaml\.(?:unsafe_load|full_load)\(|"
    r"jinja2\.Environment\(|shell=True|weights_only=False|(?<![.\w])(?:eval|exec)\(",
    re.MULTILINE,
)


def test_no_file_of_the_package_runs_what_it_reads():
    files = sorted((ROOT / "grpo_runner").rglob("*.py"))
    assert len(files) > 100
    assert [str(file) for file in files if RUNS_DATA.search(file.read_text(encoding="utf-8"))] == []


def test_each_call_would_be_seen():
    """Negative control."""
    for text in ("x = torch.load(f)", "import pickle", "f(trust_remote_code=True)", "yaml.unsafe_load(t)", "eval(t)"):
        assert RUNS_DATA.search(text)
    assert not RUNS_DATA.search("model.eval()") and not RUNS_DATA.search("yaml.safe_load(t)")


def test_the_page_is_linked():
    assert "(SECURITY.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_merge_does_not_read_pickled_weights_of_an_adapter(tmp_path, capsys):
    adapter = tmp_path / "run" / "adapter"
    adapter.mkdir(parents=True)
    (tmp_path / "run" / "config.yaml").write_text("{}")
    (adapter / "adapter_config.json").write_text("{}")
    (adapter / "adapter_model.bin").write_bytes(b"a pickle")
    words = ["merge", str(tmp_path / "run"), str(tmp_path / "out")]
    assert cli.main(words) == 2 and "adapter_model.safetensors" in capsys.readouterr().err
    (adapter / "adapter_model.safetensors").write_bytes(
        b""
    )  # negative control: it is this file's absence that was told
    assert cli.main(words) == 2 and "adapter_model.safetensors" not in capsys.readouterr().err
