"""Micro-batches by memory: what is kept, what is never made, what happens where memory runs out, and what stays as it was."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from grpo_runner import sizes
from grpo_runner.algorithm import token_weights
from grpo_runner.config import compose
from grpo_runner.errors import MachineError
from grpo_runner.policy import budget as budget_module
from grpo_runner.policy import update as update_module
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.budget import automatic, bytes_a_token, checkpoints
from grpo_runner.policy.models import attach_lora, trainable
from grpo_runner.policy.scorer import Scorer
from grpo_runner.policy.update import Trainer
from grpo_runner.types import Completion, Finish, Group, Question
from tests.helpers import changed, in_double, random_groups, tiny_llama

CPU = torch.device("cpu")
CONFIG = changed(
    compose(["beta=0.04", "lora.rank=2", "lora.alpha=3", "optim.max_grad_norm=null", "max_new_tokens=16"]),
    run_dir="unused",
    temperature=0.7,
    entropy_bonus=0.1,
    optim__microbatch_tokens=200,
)


def policy(config=CONFIG):
    """A tiny policy in float64: with an adapter that is not 0, or, with lora=off, trained as a whole."""
    if not config.lora.enabled:
        return tiny_llama()
    model = in_double(attach_lora(tiny_llama(), config.lora, 0)).eval()
    draw = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=draw, dtype=torch.float64) * 0.2
    return model


BATCH = Batch.of(random_groups(3, 4))
ROWS = torch.arange(12)


def tokens_of(piece, batch=BATCH):
    """Of rows that are packed: a group's prompt once, completions without their last token."""
    prompts = {int(batch.groups_N[row]): len(batch.prompts[row]) for row in piece.tolist()}
    return sum(prompts.values()) + sum(len(batch.completions[row]) - 1 for row in piece.tolist())


def gradient(config=CONFIG, model=None, say=lambda _: None, parts=(ROWS,)):
    """(gradient of the last optimizer step by name, what the update saw, its trainer); no parameter is changed."""
    trainer = Trainer(model or policy(config), 0, config, CPU, autocast=False, say=say)
    caught = {}
    trainer.optimizer.step = lambda: caught.update(
        {name: parameter.grad.clone() for name, parameter in trainer.named.items() if parameter.grad is not None}
    )
    given = (torch.linspace(-1.5, 2.0, 12, dtype=torch.float64), BATCH.mask_NT, BATCH.groups_N, parts, "token_mean", 16)
    return caught, trainer.update(BATCH, parts, *token_weights(*given), 0, record=True), trainer


def assert_same(found, expected):
    assert found.keys() == expected.keys() and len(found) > 0
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-9, atol=1e-13)


# ---- packed or not


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("tokens", [200, 30])
def test_packing_changes_no_gradient(lora, tokens):
    config = changed(CONFIG, lora__enabled=lora, optim__microbatch_tokens=tokens)
    packed, seen, trainer = gradient(config)
    padded, other, plain = gradient(changed(config, optim__packing=False))
    assert trainer.score.decoder is not None and plain.score.decoder is None
    assert_same(packed, padded)
    assert seen.kl == pytest.approx(other.kl, rel=1e-9) and seen.grad_norm == pytest.approx(other.grad_norm, rel=1e-9)


def test_another_beta_or_entropy_bonus_would_be_seen():
    """Negative control of `assert_same`."""
    plain, _, _ = gradient()
    for other in (changed(CONFIG, beta__value=0.05), changed(CONFIG, entropy_bonus=0.0)):
        with pytest.raises(AssertionError):
            assert_same(gradient(other)[0], plain)


# ---- memory runs out


class Full:
    """Raises as torch does when a piece has more tokens than fit. where: before its loss, or in it, or in backward."""

    def __init__(self, monkeypatch, most, where):
        self.sizes, self.most = [], most
        score, loss_of = Scorer.__call__, update_module.loss_of

        def scored(scorer, batch, piece, entropy=False):
            if torch.is_grad_enabled():
                self.sizes.append(tokens_of(piece))
            found = score(scorer, batch, piece, entropy)
            if torch.is_grad_enabled():
                if where == "forward":
                    self.check()
                if where == "backward":
                    found[0].register_hook(lambda _: self.check())
            return found

        def lost(*args):
            if where == "loss":
                self.check()
            return loss_of(*args)

        monkeypatch.setattr(Scorer, "__call__", scored)
        monkeypatch.setattr(update_module, "loss_of", lost)

    def check(self):
        if self.sizes[-1] > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")


@pytest.mark.parametrize("where", ["forward", "loss", "backward"])
def test_where_memory_runs_out_the_same_gradient_is_made_of_smaller_pieces(where, monkeypatch):
    plain, expected, _ = gradient()
    assert tokens_of(ROWS) > 50
    full, said = Full(monkeypatch, 25, where), []
    found, seen, trainer = gradient(say=said.append)
    assert_same(found, plain)
    assert trainer.budget.tokens == 25  # 200, 100, 50, 25
    assert [line.split()[-2] for line in said] == ["100", "50", "25"]  # once for each fall
    assert max(full.sizes) > 25 >= full.sizes[-1] and seen.updates == 1
    assert seen.kl == pytest.approx(expected.kl, rel=1e-9) and seen.ratio_mean == expected.ratio_mean
    torch.testing.assert_close(seen.kl_N, expected.kl_N)
    trainer.update(BATCH, [ROWS], BATCH.mask_NT / 40, BATCH.mask_NT / 40, 1)
    assert trainer.budget.tokens == 25 and len(said) == 3  # it stays there, and is not said again


def test_what_half_a_minibatch_has_added_is_not_counted_twice(monkeypatch):
    """The last piece alone does not fit, after backward passes of the others."""
    config = changed(CONFIG, optim__microbatch_tokens=40)
    plain, expected, _ = gradient(config)
    sizes = [tokens_of(piece) for piece in BATCH.packed_microbatches(ROWS, 40)]
    assert len(sizes) > 1
    calls, score = [], Scorer.__call__

    def scored(scorer, batch, piece, entropy=False):
        if torch.is_grad_enabled():
            calls.append(len(piece))
            if len(calls) == len(sizes):
                raise torch.OutOfMemoryError("CUDA out of memory")
        return score(scorer, batch, piece, entropy)

    monkeypatch.setattr(Scorer, "__call__", scored)
    said = []
    found, seen, trainer = gradient(config, say=said.append)
    assert_same(found, plain)
    assert seen.kl == pytest.approx(expected.kl, rel=1e-9)  # nor in the figures
    assert len(said) == 1 and trainer.budget.tokens == 20
    # negative control: without forgetting, the first pieces are in the gradient twice
    calls.clear()
    monkeypatch.setattr(update_module.Stepper, "drop_gradients", lambda self: None)
    with pytest.raises(AssertionError):
        assert_same(gradient(config)[0], plain)


def test_several_optimizer_steps_keep_their_old_log_probabilities(monkeypatch):
    config, parts = changed(CONFIG, optim__updates_per_rollout=2), (ROWS[:6], ROWS[6:])
    plain, expected, _ = gradient(config, parts=parts)
    Full(monkeypatch, 20, "backward")
    found, seen, _ = gradient(config, parts=parts)
    assert_same(found, plain)
    assert seen.ratio_mean == pytest.approx(expected.ratio_mean, rel=1e-12)


def test_a_single_answer_that_does_not_fit_is_an_error_of_the_machine(monkeypatch):
    Full(monkeypatch, 3, "forward")
    model = policy()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(MachineError, match="single answer") as error:
        gradient(model=model)
    assert 1 < len(str(error.value).splitlines()) <= 5
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_an_error_of_another_kind_is_not_taken_for_a_lack_of_memory(monkeypatch):
    monkeypatch.setattr(Scorer, "__call__", lambda *_: (_ for _ in ()).throw(RuntimeError("other")))
    with pytest.raises(RuntimeError, match="other"):
        gradient(changed(CONFIG, beta__value=0.0))


# ---- auto


def test_the_budget_by_free_memory(monkeypatch):
    """Of tiny_llama (h 16, 2 layers, 2 heads and 1 of keys, 8 wide, f 24) in float64, counted by hand."""
    model = tiny_llama()
    layer = 16 + 16 + 16 + 16 + (16 + 8 + 8) + 16 + (24 + 24)  # sums, norms, q k v, attended, gate and up
    assert layer == 160
    packed, padded = 2 * 160 * 8 + 4 * 16, 2 * 2 * 160 * 8 + 2 * 4 * 13
    assert bytes_a_token(model.config, 8, True, False) == packed
    assert bytes_a_token(model.config, 8, False, False) == padded
    assert bytes_a_token(model.config, 8, True, True) == 2 * 16 * 8 + 160 * 8 + 4 * 16
    monkeypatch.setitem(sizes.MOST, "cpu", 2000)
    monkeypatch.setattr(sizes, "CACHED", 0)
    monkeypatch.setattr(budget_module, "free_memory", lambda device: 1000 * packed)
    by_modules = max(256, 600 * packed // padded)
    assert (
        automatic(model, CPU, True) == automatic(model, CPU, False) == by_modules
    )  # all is trained: by its own modules
    model = attach_lora(model, CONFIG.lora, 0)
    assert automatic(model, CPU, True) == 600  # the adapter alone
    assert automatic(model, CPU, False) == by_modules
    for free, tokens in ((1, 256), (10**12, 2000)):  # never less, never more
        monkeypatch.setattr(budget_module, "free_memory", lambda device, free=free: free)
        assert automatic(model, CPU, True) == tokens
    monkeypatch.setattr(sizes, "CACHED", 3000 * packed)  # a small model may have more at once
    assert automatic(model, CPU, True) == 3000
    monkeypatch.setattr(sizes, "CACHED", 0)
    config = changed(CONFIG, optim__microbatch_tokens="auto", lora__enabled=False)
    assert Trainer(tiny_llama(), 0, config, CPU, autocast=False).budget.tokens == 2000
    monkeypatch.undo()
    assert 2**20 < budget_module.free_memory(CPU) < 2**50


def test_gradient_checkpointing_is_seen_by_the_budget(monkeypatch):
    model = policy()
    assert not checkpoints(model)
    monkeypatch.setattr(budget_module, "free_memory", lambda device: 10**6)
    plain = automatic(model, CPU, True)
    model.get_base_model().gradient_checkpointing_enable()
    assert checkpoints(model) and automatic(model, CPU, True) > plain


def roomy(item, hidden=64, vocab=32):
    """A model whose adapter is small beside it, with norms and heads of unequal sizes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=vocab, hidden_size=hidden, intermediate_size=3 * hidden - 16, num_hidden_layers=3,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
        )  # fmt: skip
        model = LlamaForCausalLM(config)
    return attach_lora(model.to(item).eval(), CONFIG.lora, 0).eval()


def long_rows(questions, group_size, prompt, completion, vocab=32):
    draw = torch.Generator().manual_seed(3)

    def ids(length):
        return tuple(torch.randint(3, vocab, (length,), generator=draw).tolist())

    return Batch.of(
        [
            Group(
                Question(str(slot), "", ""),
                ids(prompt),
                tuple(Completion(ids(completion - row % 3), "", (), Finish.EOS) for row in range(group_size)),
            )
            for slot in range(questions)
        ]
    )


def kept_bytes(model, packing, batch):
    """Of distinct storages that autograd holds after the forward pass, without the model's own."""
    own = {tensor.untyped_storage().data_ptr() for tensor in [*model.parameters(), *model.buffers()]}
    held = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    rows = torch.arange(len(batch.completions))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logprobs, _ = Scorer(model, 0, CPU, 1.0, packing)(batch, rows)
    found = sum(held.values())
    logprobs.sum().backward()
    return found


@pytest.mark.parametrize("item", [torch.float32, torch.bfloat16], ids=str)
def test_a_token_keeps_what_the_budget_counts(item):
    model, batch = roomy(item), long_rows(2, 3, 5, 40)
    tokens = tokens_of(torch.arange(6), batch)
    counted = tokens * bytes_a_token(model.config, item.itemsize, True, False)
    found = kept_bytes(model, True, batch)
    assert 0.8 < found / counted < 1.2
    # the other way keeps more than that: negative control, and its own count holds too
    padded = kept_bytes(model, False, batch)
    assert padded / counted > 1.5
    columns = 5 + 40
    assert padded < 1.5 * 6 * columns * bytes_a_token(model.config, item.itemsize, False, False)


class Largest(TorchDispatchMode):
    """The most elements of any tensor that any operation gave, in forward and backward passes."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for value in found if isinstance(found, tuple | list) else [found]:
            if isinstance(value, torch.Tensor):
                self.numel = max(self.numel, value.numel())
        return found


@pytest.mark.parametrize("lora", [True, False])
def test_no_tensor_of_rows_by_tokens_by_vocabulary_is_ever_made(lora):
    """R · V numbers would be 8 million here; a chunk has 4 at most."""
    vocab, batch = 40_000, long_rows(2, 3, 4, 36, 40_000)
    model = roomy(torch.float32, hidden=32, vocab=vocab)
    if not lora:
        model = model.unload().requires_grad_()
    tokens = int(batch.mask_NT.sum())
    whole, most = tokens * vocab, {}
    assert whole > 2 * 2**22
    for packing in (True, False):
        with Largest() as largest:
            logprobs, entropies = Scorer(model, 0, CPU, 1.0, packing)(batch, torch.arange(6), lora)
            (logprobs.sum() + (entropies.sum() if lora else 0)).backward()
        most[packing] = largest.numel
    assert most[True] <= 2**22 < whole <= most[False]  # and the padded way does make it: negative control


# ---- what stays as it was


def test_an_update_changes_the_adapter_alone():
    model = policy()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trainer = Trainer(model, 0, changed(CONFIG, optim__lr=0.05), CPU, autocast=False)
    for step in range(2):
        trainer.update(BATCH, [ROWS], BATCH.mask_NT / 40, BATCH.mask_NT / 40, step)
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == set(trainable(model)) and all("lora_" in name for name in moved)


def test_packed_pieces_are_few_and_alike():
    """Two groups of two rows, prompts of 5, completions of 7 and 6, of which the ends are not fed: 16 tokens a group."""
    batch = long_rows(2, 2, 5, 7)

    def cut(tokens):
        return [piece.tolist() for piece in batch.packed_microbatches(torch.arange(4), tokens)]

    assert cut(32) == [[0, 1, 2, 3]]
    assert cut(31) == [[0, 1], [2, 3]]  # 16 and 16, where filling each piece would give 27 and 10
    assert cut(15) == cut(1) == [[0], [1], [2], [3]]  # a row that does not fit is a piece of its own
