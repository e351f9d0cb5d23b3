"""What a process holds of a base that is shared out: bytes of its parameters, and the most while layers are gathered.

    torchrun --nproc-per-node 2 scripts/shard_memory.py model=smollm2_135m device=cpu hydra.run.dir=/tmp/two

makes one step of a run with these overrides, and prints a line for each process. Unless `shard_base` is given, the base
is shared out over all processes. The most is over all moments at which a layer was gathered, of every tensor of the
process that has 10,000 numbers or more: activations and the adapter's state are in it.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import torch

from grpo_runner import cli, parallel
from grpo_runner.policy import shards
from grpo_runner.train import build, loading


def alive() -> int:
    """Bytes of the storages of all tensors that Python knows of."""
    found = {}
    for thing in gc.get_objects():
        if isinstance(thing, torch.Tensor) and thing.numel() >= 10_000:
            local = thing.to_local() if hasattr(thing, "to_local") else thing
            storage = local.untyped_storage()
            found[storage._cdata] = storage.nbytes()
    return sum(found.values())


def main(words: list[str]) -> int:
    """Make the step and tell; gives the run's exit code."""
    models: list[Any] = []
    most = [0]
    load, opened = loading.load_policy, shards.Shards.open

    def loaded(*given: Any, **named: Any) -> Any:
        models.append(load(*given, **named))
        return models[-1]

    def counted(self: Any, number: int, then: int) -> None:
        opened(self, number, then)
        most[0] = max(most[0], alive())

    build.load_policy, shards.Shards.open = loaded, counted  # type: ignore[attr-defined, method-assign]
    few = ["steps=1", "questions_per_step=4", "group_size=2", "max_new_tokens=8", "evaluation=never", "tracking=off"]
    chosen = [] if any(word.startswith("shard_base=") for word in words) else ["shard_base=all"]
    code = cli.main([*few, *chosen, *words])
    if code == 0:
        ranks, (model, _) = parallel.ranks(), models[0]
        base = [value for name, value in model.named_parameters() if "lora_" not in name]
        held = sum((p.to_local() if hasattr(p, "to_local") else p).numel() * p.element_size() for p in base)
        whole = sum(p.numel() * p.element_size() for p in base)
        beside = f"; {most[0] / 1e6:.1f} MB of tensors at most" if most[0] else ""
        print(f"process {ranks.rank} of {ranks.world}: {held / 1e6:.1f} of {whole / 1e6:.1f} MB of the base{beside}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
