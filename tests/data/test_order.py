"""The order of training questions: a pure function of (seed, step), with rules for short batches and small sets."""

from collections import Counter

import pytest

from grpo_runner.data import order
from grpo_runner.errors import InputError


def batches(count, steps, size, seed=0, short_batch="wrap"):
    return [order.batch(count, step, size, seed, short_batch) for step in range(steps)]


def test_an_epoch_holds_every_question_once():
    (epoch,) = batches(12, 1, 12)
    assert sorted(epoch) == list(range(12))
    assert epoch != list(range(12))  # shuffled: the chance of this by luck is 1 in 12!


def test_epochs_and_seeds_differ():
    first, second = batches(50, 2, 50)
    assert first != second
    assert order.batch(50, 0, 50, 1, "wrap") != first


def test_wrap_is_one_stream_of_epochs():
    """PB071: 10 questions, 4 a step. 2.5 steps an epoch, so 5 steps are exactly two epochs and nothing is lost."""
    stream = [index for batch in batches(10, 5, 4) for index in batch]
    assert sorted(stream[:10]) == sorted(stream[10:]) == list(range(10))
    assert order.steps_per_epoch(10, 4, "wrap") == 2.5
    assert all(len(batch) == 4 for batch in batches(10, 5, 4))


def test_drop_leaves_out_the_last_short_batch():
    """PB071: 10 questions, 4 a step. 2 steps an epoch with 8 different questions, other ones left out each epoch."""
    steps = batches(10, 20, 4, short_batch="drop")
    epochs = [steps[i] + steps[i + 1] for i in range(0, 20, 2)]
    assert all(len(set(epoch)) == 8 for epoch in epochs)
    assert order.steps_per_epoch(10, 4, "drop") == 2
    assert len({frozenset(set(range(10)) - set(epoch)) for epoch in epochs}) > 1


def test_drop_and_wrap_agree_where_nothing_is_short():
    assert batches(12, 9, 4) == batches(12, 9, 4, short_batch="drop")
    assert batches(10, 9, 4) != batches(10, 9, 4, short_batch="drop")


def test_a_resumed_run_gets_the_same_batches():
    """PB076: steps 3 to 6 are the same whether steps 0 to 2 were asked for before them or not."""
    whole = batches(10, 6, 4)
    order._epoch.cache_clear()
    assert [order.batch(10, step, 4, 0, "wrap") for step in (5, 3, 4)] == [whole[5], whole[3], whole[4]]


@pytest.mark.parametrize("short_batch", ["wrap", "drop"])
def test_the_step_after_an_epoch_begins_the_next(short_batch):
    """PB077: 8 questions, 4 a step: step 2 is the first of epoch 2, a full one, in a new order."""
    steps = batches(8, 4, 4, short_batch=short_batch)
    assert sorted(steps[2] + steps[3]) == list(range(8))
    assert steps[2] + steps[3] != steps[0] + steps[1]


@pytest.mark.parametrize("short_batch", ["wrap", "drop"])
def test_a_set_smaller_than_a_step_repeats(short_batch):
    """PB070: 5 questions, 8 a step. Five steps are eight epochs: every question comes up eight times."""
    steps = batches(5, 5, 8, short_batch=short_batch)
    assert all(len(batch) == 8 for batch in steps)
    assert Counter(index for batch in steps for index in batch) == dict.fromkeys(range(5), 8)


def test_a_set_smaller_than_a_step_is_refused_or_noted():
    """PB070: never zero steps that look like success."""
    with pytest.raises(InputError, match=r"questions_per_step=8 .* 5 training") as error:
        order.check_size(5, 8, "error")
    assert "data.small_set=wrap" in str(error.value)
    with pytest.raises(InputError):
        order.check_size(0, 8, "wrap")
    assert "repeat within a step" in order.check_size(5, 8, "wrap")
    assert order.check_size(8, 8, "error") is None


def test_the_plan_states_what_happens_to_a_short_batch():
    assert order.plan(10, 4, "wrap").startswith("10 questions, 4 a step: 2.5 steps an epoch, a short batch is filled")
    assert "2 steps an epoch, 2 left out each epoch" in order.plan(10, 4, "drop")
    assert order.plan(8, 4, "drop") == "8 questions, 4 a step: 2 steps an epoch"
