"""How work is cut, by itself: every thing once, whole groups where there are enough."""

from __future__ import annotations

import pytest
import torch

from grpo_runner.errors import InputError
from grpo_runner.parallel import Ranks


@pytest.mark.parametrize("world", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("count", [0, 1, 5, 8])
def test_shares_are_all_things_once_in_order_and_almost_equal(world, count):
    shares = [Ranks(rank, world).share(count) for rank in range(world)]
    assert [i for share in shares for i in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_rows_are_cut_between_groups(world):
    groups_N = torch.arange(24) // 4
    rows = torch.tensor([0, 3, 4, 9, 10, 11, 17, 20, 21])  # of slots 0, 1, 2, 4, 5; none of slot 3
    lengths_N = torch.arange(24) % 5 + 1
    shares = [Ranks(rank, world).rows(rows, groups_N, lengths_N) for rank in range(world)]
    assert torch.cat(shares).sort().values.tolist() == rows.tolist() and all(map(len, shares))
    slots = [set(groups_N[share].tolist()) for share in shares]
    assert all(not one & other for i, one in enumerate(slots) for other in slots[:i])


def test_a_single_group_is_cut_by_rows_and_nothing_is_cut_to_nothing():
    rows, groups_N = torch.tensor([4, 5, 7]), torch.arange(8) // 4
    assert [Ranks(rank, 2).rows(rows, groups_N, groups_N + 1).tolist() for rank in range(2)] == [[4], [5, 7]]
    assert [len(Ranks(rank, 2).rows(rows[:0], groups_N, groups_N + 1)) for rank in range(2)] == [0, 0]


def test_groups_are_shared_out_by_their_tokens():
    """Four groups of two rows; one long group is as much as the three others. By number it would be 2 and 2."""
    groups_N, lengths_N = torch.arange(8) // 2, torch.tensor([30, 30, 10, 10, 10, 10, 10, 10])
    shares = [Ranks(rank, 2).rows(torch.arange(8), groups_N, lengths_N).tolist() for rank in range(2)]
    assert shares == [[0, 1], [2, 3, 4, 5, 6, 7]]
    even = [Ranks(rank, 2).rows(torch.arange(8), groups_N, torch.ones(8, dtype=torch.long)) for rank in range(2)]
    assert list(map(len, even)) == [4, 4]


def test_what_sharing_out_by_tokens_saves():
    """The share of the processes' time in which they wait, where time goes by tokens: 64 groups of 8 answers, lengths
    drawn about a log-normal mean (σ .6) of each group, 8 processes, 20 draws; beside shares by number.
    """
    groups_N, world, waits = torch.arange(512) // 8, 8, []
    for seed in range(20):
        drawn = torch.Generator().manual_seed(seed)
        means = torch.exp(torch.randn(64, 1, generator=drawn) * 0.6 + 6)
        lengths_N = (means * torch.exp(torch.randn(64, 8, generator=drawn) * 0.4)).clamp(1, 3000).long().flatten()
        by_tokens = [
            lengths_N[Ranks(rank, world).rows(torch.arange(512), groups_N, lengths_N)] for rank in range(world)
        ]
        by_number = lengths_N.split(64)
        for shares in (by_number, by_tokens):
            loads = [int(share.sum()) for share in shares]
            waits.append(1 - sum(loads) / world / max(loads))
    number, tokens = sum(waits[::2]) / 20, sum(waits[1::2]) / 20
    assert number > 0.2 and tokens < 0.03, (number, tokens)


def test_a_process_without_a_gpu_of_its_own_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: None)
    assert Ranks(5, 8, 1).device(torch.device("cuda")) == torch.device("cuda", 1)
    assert Ranks(2, 4, 2).device(torch.device("cpu")) == torch.device("cpu")
    with pytest.raises(InputError, match="process 3 of this machine finds 2 GPUs"):
        Ranks(2, 4, 2).device(torch.device("cuda"))


def test_one_process_has_no_meetings():
    alone, value = Ranks(), torch.ones(2)
    with pytest.raises(ZeroDivisionError), alone.together():
        assert alone.gather([1, 2], "a") == [1, 2] and alone.by_first(lambda: 3, "b") == 3
        assert alone.sum(value, "c") is value and alone.any(True, "d") and not alone.any(False, "e")
        1 / 0  # noqa: B018
    assert alone.speaks and not torch.distributed.is_initialized()
