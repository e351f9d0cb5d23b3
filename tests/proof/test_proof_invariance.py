"""How a batch is cut, ordered, padded and shared out does not change the Trainer's gradient (PB022, PB023, PB025)."""

import pytest
import torch

from grpo_runner import algorithm
from tests.proof.draws import label
from tests.proof.invariance import BUDGET, EXCLUDED, ROWS, SHARE, Gradients, cases, crossed, difference, variants

BOUND = 1e-9


@pytest.fixture(scope="module", params=[True, False], ids=["packed", "padded"])
def gradients(request):
    return Gradients(packing=request.param)


@pytest.mark.parametrize(
    "case", [case if crossed(case) else pytest.param(case, marks=pytest.mark.slow) for case in cases()], ids=label
)
def test_the_gradient_stays(gradients, case):
    found = variants(gradients, case)
    assert {name: worst for name, worst in found.items() if worst > BOUND} == {}


@pytest.mark.parametrize("kind", algorithm.LOSS_NORMS)
def test_a_norm_of_each_micro_batch_is_seen(gradients, kind):
    """Negative control: weights by the micro-batch's own norm, averaged over micro-batches."""
    case, pieces = (kind, "token", None, None), torch.arange(ROWS).split([5, 1, 4, 2])
    batch = gradients.batch(sizes=(5, 1, 4, 2))
    broken = [
        w / len(pieces) for w in algorithm.token_weights(SHARE, batch.mask_NT, batch.groups_N, pieces, kind, BUDGET)
    ]
    assert difference(gradients.of(case, batch, weighed=broken), gradients.of(case, gradients.batch())) > 1e-3


@pytest.mark.parametrize("kind", algorithm.LOSS_NORMS)
def test_a_norm_of_each_process_is_seen(gradients, kind):
    """Negative control: each process by its own rows, gradients averaged, as data-parallel wrappers do; 5 and 7 rows."""
    case, shards = (kind, "token", None, None), torch.arange(ROWS).split([5, 7])
    batch = gradients.batch()
    broken = [
        w / len(shards) for w in algorithm.token_weights(SHARE, batch.mask_NT, batch.groups_N, shards, kind, BUDGET)
    ]
    total = sum(gradients.of(case, batch, shard, weighed=broken) for shard in shards)
    assert difference(total, gradients.of(case, batch)) > 1e-3


def test_weights_that_do_not_follow_their_rows_are_seen(gradients):
    """Negative control of the row order."""
    case, order = ("sequence_mean", "token", None, None), list(range(ROWS))[::-1]
    whole = gradients.of(case, gradients.batch())
    assert difference(gradients.of(case, gradients.batch(order=order)), whole) > 1e-3


def test_sampled_logprobs_and_groups_that_do_not_follow_their_rows_are_seen(gradients):
    """Negative controls of the row order."""
    order = list(range(0, ROWS, 2)) + list(range(1, ROWS, 2))
    for case, stays in (
        (("constant", "token", None, "importance_token"), "sampled_NT"),
        (("group_token_mean", "token", None, None), "groups_N"),
    ):
        whole, moved = gradients.batch(), gradients.batch(order=order)
        object.__setattr__(moved, stays, getattr(whole, stays))
        assert difference(gradients.of(case, moved, share=SHARE[order]), gradients.of(case, whole)) > 1e-3


@pytest.mark.parametrize("kind", ["sequence_mean", "constant", "sequence_sum"])
def test_excluded_answers_that_count_in_the_number_of_answers_are_seen(gradients, kind):
    """Negative control: divided by all rows, as TRL and oat do, the gradient is half of what it is."""
    case, batch = (kind, "token", None, None), gradients.batch()
    mask = batch.mask_NT.clone()
    mask[list(EXCLUDED)] = False
    made = algorithm.token_weights(SHARE, mask, batch.groups_N, [torch.arange(ROWS)], kind, BUDGET)
    counted = gradients.of(case, batch, weighed=[w * (ROWS - len(EXCLUDED)) / ROWS for w in made])
    assert difference(counted, gradients.of(case, batch, excluded=EXCLUDED)) == pytest.approx(0.5)


def test_a_constant_of_the_padded_width_is_seen(gradients):
    """Negative control of the padding: verl's default divides by the width of the batch at hand."""
    case = ("constant", "token", None, None)
    widths = [gradients.batch(right=right) for right in (0, 11)]
    found = [
        gradients.of(
            case,
            batch,
            weighed=algorithm.token_weights(
                SHARE, batch.mask_NT, batch.groups_N, [torch.arange(ROWS)], "constant", batch.mask_NT.shape[1]
            ),
        )
        for batch in widths
    ]
    assert difference(found[1], found[0]) > 0.5
