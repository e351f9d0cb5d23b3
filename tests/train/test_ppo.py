"""PPO as a whole run: what it logs, that it goes on where it left off, and what it asks of the keys beside it."""

from __future__ import annotations

import io
import json
import shutil

import pytest
from rich.console import Console
from safetensors.torch import load_file, save_file

from grpo_runner import checks, compose
from grpo_runner.errors import InputError
from grpo_runner.lessons import explain
from grpo_runner.tracking.texts import read_texts
from grpo_runner.train import run
from grpo_runner.train.checkpoint import _hash

ARGS = (
    *("method=ppo", "questions_per_step=4", "group_size=4", "max_new_tokens=16", "tracking=off", "steps=4"),
    *("evaluation=never", "checkpoint.keep=9", "optim.updates_per_rollout=2", "optim.lr=0.002"),
)


def go(folder, *overrides):
    run(compose([*ARGS, *overrides, f"hydra.run.dir={folder}"]))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows]


@pytest.fixture(scope="module", params=["shared_base", "own_model"])
def ppo(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ppo") / "run"
    return folder, request.param, go(folder, f"critic={request.param}")


def test_it_logs_what_the_critic_does(ppo):
    """A fresh critic expects 0 of every state: the first loss is half the mean square of the returns."""
    _, _, rows = ppo
    assert rows[0]["critic/value"] == 0 and rows[0]["critic/explained_variance"] == pytest.approx(0, abs=1e-12)
    assert rows[0]["critic/loss"] > rows[-1]["critic/loss"] > 0
    assert rows[-1]["critic/value"] > 0 and all(row["critic/grad_norm"] > 0 for row in rows)
    assert all(row["updates"] == 2 and row["kl"] is not None and "reward/after_kl" in row for row in rows)


@pytest.mark.parametrize("at", [1, 3])
def test_a_resumed_run_is_the_same(ppo, tmp_path, at):
    folder, kind, rows = ppo
    again = cut(folder, tmp_path / "run", at)
    assert go(again, f"critic={kind}") == rows
    files = ("adapter/adapter_model.safetensors", "checkpoints/step_000004/critic.safetensors")
    assert all((folder / file).read_bytes() == (again / file).read_bytes() for file in files)


@pytest.mark.parametrize("kind", ["tensors/", "optimizer/"])
def test_a_critic_that_was_not_restored_whole_is_seen(ppo, tmp_path, kind):
    """Negative control: either half of its state at 0."""
    folder, critic, rows = ppo
    again = cut(folder, tmp_path / "run", 2)
    file = again / "checkpoints" / "step_000002" / "critic.safetensors"
    save_file({name: value * (not name.startswith(kind)) for name, value in load_file(file).items()}, file)
    manifest = json.loads((file.parent / "MANIFEST.json").read_text())
    manifest["files"][file.name] = _hash(file)
    (file.parent / "MANIFEST.json").write_text(json.dumps(manifest))
    assert go(again, f"critic={critic}") != rows


def cut(folder, again, at):
    """A copy of the run as it was after so many steps."""
    shutil.copytree(folder, again)
    (again / "DONE").unlink()
    for checkpoint in (again / "checkpoints").iterdir():
        if int(checkpoint.name.removeprefix("step_")) > at:
            shutil.rmtree(checkpoint)
    return again


@pytest.mark.parametrize(
    "overrides, told",
    [
        (["method=ppo", "critic=none"], "advantage.credit=gae with critic=none"),
        (["method=grpo", "critic=shared_base"], "critic=shared_base changes nothing with advantage.credit=outcome"),
        (["critic.gamma=0.9"], "critic.gamma changes nothing with critic.kind=none"),
        (["method=ppo", "critic.lam=null"], "critic.lam=null with critic.kind=shared_base"),
        (["method=ppo", "lora=off"], "critic=shared_base with lora=off"),
        (["method=ppo", "advantage.baseline=group_mean"], "the critic is the baseline"),
        (["method=ppo", "samples=base", "clip=none"], "samples=base with a critic"),
    ],
)
def test_keys_that_do_not_go_together(overrides, told):
    with pytest.raises(InputError) as caught:
        checks.check(compose(overrides))
    assert told in str(caught.value) and len(str(caught.value).splitlines()) <= 5


def test_keys_that_go_together():
    for overrides in ([], ["critic=own_model", "lora=off"], ["critic.clip=null"], ["group_size=1"], ["beta=no_kl"]):
        checks.check(compose(["method=ppo", *overrides]))


def test_explain_shows_what_each_token_got(tmp_path):
    """Means over an answer where its tokens were credited differently, and a note that says so."""
    folder = tmp_path / "run"
    go(folder, "steps=2", "tracking.completions_every=1")
    screen = Console(record=True, width=120, file=io.StringIO())
    explain([str(folder), "--step", "1", "--html", str(tmp_path / "page.html")], screen)
    text = screen.export_text()
    assert "advantage.credit=gae: what tokens got is not of their answer's reward alone" in text
    rows = [row for row in read_texts(folder, 1, lambda row: row) if row["coefficient"]]
    assert any(len(set(row["coefficient"])) > 1 for row in rows)
    page = (tmp_path / "page.html").read_text()
    assert f"coefficient {rows[0]['coefficient'][0]:+.4g}" in page
