"""SECURITY.md is found, and an adapter is read as it says. tests/test_architecture.py looks for calls that run data."""

from __future__ import annotations

from pathlib import Path

from grpo_runner import cli

ROOT = Path(__file__).resolve().parents[1]


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
    (adapter / "adapter_model.safetensors").touch()  # negative control: it is this file's absence that was told
    assert cli.main(words) == 2 and "adapter_model.safetensors" not in capsys.readouterr().err
