"""docs/facts.csv as a table: what a row may be, and that the published figures are what the papers print."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_runner import facts
from grpo_runner.errors import InputError
from grpo_runner.facts import Fact

HEADER = "preset,key,value,source,kind\n"


def test_rows_are_read_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "facts.csv"
    file.write_text(HEADER + 'mine,optim.betas,"[0.9, 0.95]","a, b",our choice\nmine.table1,gsm8k,43.3,me,published\n')
    assert facts.read(file) == (
        Fact("mine", "optim.betas", "[0.9, 0.95]", "a, b", "our choice"),
        Fact("mine.table1", "gsm8k", "43.3", "me", "published"),
    )


@pytest.mark.parametrize(
    ("text", "needle"),
    [
        ("preset,key,value\n", "facts.csv:1: the header is preset,key,value. Allowed: preset,key,value,source,kind."),
        ("", "facts.csv:1: the header is "),
        (HEADER + "a,b,1,c,stated\na,b,1,stated\n", "facts.csv:3: a row has the 5 cells"),
        (HEADER + "a,b,1, ,stated\n", "none of them empty"),
        (HEADER + "a,b,1,c,statd\n", "'statd' is no kind. Did you mean \"stated\"?"),
        (HEADER + "a,b,1,c,stated\na,b,2,c,derived\n", "facts.csv:3: a has a second row for b"),
        (HEADER + "a,b,much,c,published\n", "'much' is no figure in percent, such as 43.3"),
        (HEADER + 'a,b,"1"2,c,stated\n', "facts.csv:2: not readable as CSV"),
    ],
)
def test_a_row_that_is_none_is_named_with_its_line(tmp_path: Path, text: str, needle: str) -> None:
    file = tmp_path / "facts.csv"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        facts.read(file)
    assert needle in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_values_are_typed_as_config_files_are() -> None:
    texts = ["1e-6", "0.5", "8", "true", "null", "[0.9, 0.95]", "{correct: 1.0}", "none", "2.5e+1", "-1"]
    assert list(map(facts.typed, texts)) == [1e-6, 0.5, 8, True, None, [0.9, 0.95], {"correct": 1.0}, "none", 25.0, -1]
    assert [type(facts.typed(text)) for text in ("8", "8.0", "8e0")] == [int, float, float]


def test_a_published_figure_is_found_by_name_and_a_near_one_named() -> None:
    # Dr. GRPO, Table 4
    wanted = {"aime24": 43.3, "amc": 62.7, "math500": 80.0, "minerva": 30.1, "olympiad_bench": 41.0, "average": 51.4}
    assert facts.figures("dr_grpo.table4.oat_zero_7b") == wanted
    for wrong in ("dr_grpo.table4.oat_zero_7", "oat_zero_7b"):
        with pytest.raises(InputError, match='Did you mean "dr_grpo.table4.oat_zero_7b"'):
            facts.figures(wrong)
    assert facts.of_preset("dr_grpo.table4.oat_zero_7b") == () == facts.of_preset("mine")


def off(figures: dict[str, float]) -> float:
    """How far a printed mean is from the mean of what it is printed beside; avg@32 is not part of any."""
    sets = [percent for name, percent in figures.items() if name not in ("average", "aime24_avg32")]
    return abs(figures["average"] - sum(sets) / len(sets))


def test_published_means_are_those_of_their_sets() -> None:
    """A slip in one of six figures shows in the mean; papers round both, one of them (20.7 for 20.76) downwards."""
    means = {name: off(facts.figures(name)) for name in facts.figure_names() if "average" in facts.figures(name)}
    assert len(means) == 49 and {name: far for name, far in means.items() if far > 0.07} == {}
    one = facts.figures("dr_grpo.table4.oat_zero_7b")
    assert off(one | {"minerva": 31.0}) > 0.07
    # what Table 4 prints for AIME 2024 without a template, 0.2, is the fraction: its own mean says 20.0
    assert off(facts.figures("dr_grpo.table4.qwen2_5_math_7b_no_template") | {"aime24": 0.2}) > 3


def test_percentages_are_percentages() -> None:
    assert all(0 <= percent <= 100 for name in facts.figure_names() for percent in facts.figures(name).values())
