"""From a DataConfig to the questions of a run: golds, sizes, notes, refusals, and the files of conf/data."""

import datetime
import hashlib
import json
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from grpo_runner import data
from grpo_runner.config import compose
from grpo_runner.errors import InputError
from grpo_runner.reward import unreadable
from grpo_runner.schema import DataConfig, SetConfig, SourceConfig

CONF = Path(__file__).parents[2] / "conf" / "data"
SHARED = Path(__file__).parents[3] / "shared" / "data"
GSM8K = r"####\s*(.+)"


def readable(gold):
    return None


def preset(name, **changes):
    """conf/data/<name>.yaml as the typed object; `train` and `eval` may be given as paths."""
    values = yaml.safe_load((CONF / f"{name}.yaml").read_text())
    config = TypeAdapter(DataConfig).validate_json(json.dumps(values))
    for key in ("train", "eval"):
        if key in changes:
            changes[key] = replace(getattr(config, key), path=str(changes[key]))
    return replace(config, **changes)


@pytest.fixture
def sets(tmp_path):
    """A function that writes rows of (question, answer) to train.jsonl and eval.jsonl and gives their config."""

    def sets(train, held_out=(("held out", "1"),), **changes):
        for name, rows in (("train", train), ("eval", held_out)):
            lines = [json.dumps({"question": question, "answer": answer}) + "\n" for question, answer in rows]
            (tmp_path / f"{name}.jsonl").write_text("".join(lines))
        return preset("jsonl", train=tmp_path / "train.jsonl", eval=tmp_path / "eval.jsonl", **changes)

    return sets


def golds(questions):
    return [question.gold for question in questions]


def refused(config, unreadable=readable):
    with pytest.raises(InputError) as error:
        data.load(config, 0, unreadable)
    assert 1 <= len(str(error.value).splitlines()) <= 5
    return str(error.value)


NUMBERS = [(f"q{i}", str(i)) for i in range(40)]


# golds


def test_golds_without_a_pattern_are_whole_cells(sets):
    rows = [("a", " 18 "), ("b", 7), ("c", 2.5), ("d", ["x+1"]), ("e", "so\n#### 18")]
    assert golds(data.load(sets(rows), 0, readable).train) == ["18", "7", "2.5", "x+1", "so\n#### 18"]


def test_several_golds_of_a_row_are_a_tuple(sets):
    rows = [("a", ["1", 2, " 1"]), ("b", ["3", "3"]), ("c", ["#### 4", "#### 5"])]
    assert golds(data.load(sets(rows), 0, readable).train)[:2] == [("1", "2"), "3"]
    assert golds(data.load(sets(rows, answer_pattern=GSM8K), 0, readable).train)[2] == ("4", "5")


def test_an_unreadable_gold_is_refused_or_left_out_and_counted(sets):
    def odd(gold):
        return "odd" if gold.isdigit() and int(gold) % 2 else None

    rows = [("a", "1"), ("b", "2"), ("c", ""), ("d", ["4", "5"]), ("e", "6"), ("f", None)]
    message = refused(sets([row for row in rows if row[1]]), odd)
    assert "train.jsonl:1: the gold answer '1' cannot be read: odd" in message
    assert "2 of 4 questions of data.train" in message
    assert "data.unreadable_gold=drop" in message
    even = [("held out", "8")]
    found = data.load(sets(rows, even, unreadable_gold="drop"), 0, lambda gold: odd(gold) if gold else "it is empty")
    assert golds(found.train) == ["2", "6"]
    assert found.notes[0].startswith("Left out 4 of 6 rows of data.train, whose gold cannot be read. First: ")
    assert "train.jsonl:1: the gold answer '1' cannot be read: odd" in found.notes[0]
    with pytest.raises(InputError, match="No row of data.train has a gold that can be read"):
        data.load(sets([("a", "1")], even, unreadable_gold="drop"), 0, odd)
    config = sets(rows, even, unreadable_gold="drop", train_size=2)
    assert golds(data.load(config, 0, lambda gold: odd(gold) if gold else "empty").train) == [
        "2",
        "6",
    ]  # sizes count the rows that can be used


def test_golds_with_a_pattern(sets):
    """The last match; a bare one-line answer as it is. This is GSM8K from the hub and as a cleaned file alike."""
    rows = [("a", "2*9=18\n#### 18"), ("b", "#### 1\nno:\n#### 1,200 "), ("c", "18"), ("d", 18)]
    assert golds(data.load(sets(rows, answer_pattern=GSM8K), 0, readable).train) == ["18", "1,200", "18", "18"]


def test_a_worked_answer_without_a_match_is_refused(sets):
    message = refused(sets([("a", "#### 1"), ("b", "2*9=18\nso 18")], answer_pattern=GSM8K))
    assert "train.jsonl:2: data.answer_pattern matches nothing" in message


@pytest.mark.parametrize("empty", ["", "  ", None, [], [""], float("nan")])
def test_a_row_without_a_gold(sets, empty):
    message = refused(sets([("a", "1"), ("b", empty), ("c", empty)]))
    assert 'train.jsonl:2: the gold answer (column "answer") is empty.' in message
    assert "2 of 3 rows of data.train have none" in message


def test_a_match_of_nothing_is_no_gold(sets):
    assert "train.jsonl:1: the gold answer" in refused(sets([("a", "#### ")], answer_pattern=r"####(.*)"))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (["1", True], "is a bool"),
        (True, "is a bool"),
        ([False], "is a bool"),
        ({"value": 1}, "is a dict"),
        ([["1"]], "is a list"),
        (float("inf"), "is a float of inf"),
        ([float("-inf")], "is a float of -inf"),
    ],
)
def test_a_gold_of_another_kind(sets, answer, said):
    assert f"eval.jsonl:1: {'' if said[0] == '2' else 'the gold answer (column '}" in (
        message := refused(sets(NUMBERS, [("h", answer)]))
    )
    assert said in message


PARQUET = [
    (b"1", "is a bytes"), (datetime.date(2026, 1, 1), "is a date"), (datetime.datetime(2026, 1, 1), "is a datetime"),
    (datetime.timedelta(1), "is a timedelta"), (True, "is a bool"), (float("inf"), "is a float of inf"),
    (float("nan"), "is empty"), ([b"1"], "is a bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "said"), PARQUET)
def test_a_parquet_gold_of_another_kind(tmp_path, answer, said):
    for name, cell in (("train", answer), ("eval", Decimal("1.50"))):
        pq.write_table(pa.table({"question": ["a"], "answer": [cell]}), tmp_path / f"{name}.parquet")
    config = preset("parquet", train=tmp_path / "train.parquet", eval=tmp_path / "eval.parquet")
    message = refused(config)
    assert f'train.parquet: row 1: the gold answer (column "answer") {said}' in message
    assert golds(data.load(replace(config, train=config.eval), 0, readable).train) == ["1.50"]  # a decimal is a number


def test_a_parquet_question_of_another_kind(tmp_path):
    pq.write_table(pa.table({"question": [b"1+1=?"], "answer": ["2"]}), tmp_path / "set.parquet")
    message = refused(preset("parquet", train=tmp_path / "set.parquet", eval=tmp_path / "set.parquet"))
    assert 'set.parquet: row 1: the question (column "question") is a bytes, not text' in message


@pytest.mark.parametrize(("row", "said"), [(("b\ud800", "2"), "question"), (("b", "2\udfff"), "gold answer")])
def test_a_lone_surrogate_is_refused(sets, row, said):
    message = refused(sets([("a \U0001f600", "1"), row]))  # JSON writes the first as a pair, which is text
    assert "train.jsonl:2: the " + said in message and "lone surrogate '\\ud" in message
    assert "character 2" in message and message.isascii()


def test_an_unreadable_gold_names_its_line_and_the_reason(sets):
    def unreadable(gold):
        return "no number in it" if gold == "???" else None

    message = refused(sets([("a", "1"), ("b", "???"), ("c", "???")]), unreadable)
    assert "train.jsonl:2: the gold answer '???' cannot be read: no number in it" in message
    assert "2 of 3 questions of data.train" in message
    assert len(data.load(sets([("a", "1"), ("b", "???")]), 0, readable).train) == 2  # control: only then refused


def test_equal_golds_are_checked_once(sets):
    seen = []
    data.load(sets([("a", "1"), ("b", "1"), ("c", "2")]), 0, seen.append)
    assert sorted(seen) == ["1", "2"]


@pytest.mark.parametrize("question", ["", "  ", None, 7, [{"role": "user"}]])
def test_a_row_without_a_question(sets, question):
    assert 'train.jsonl:2: the question (column "question") is' in refused(sets([("a", "1"), (question, "2")]))


@pytest.mark.parametrize(("pattern", "said"), [("(", "not a regular expression"), ("x", "0 groups"), ("(a)(b)", "2 ")])
def test_a_bad_pattern(sets, pattern, said):
    message = refused(sets(NUMBERS, answer_pattern=pattern))
    assert message.startswith("data.answer_pattern=") and said in message


# sizes, ids, notes


def test_duplicate_texts_are_separate_questions(sets):
    train = data.load(sets([("same", "1"), ("same", "1")]), 0, readable).train
    assert [question.id for question in train] == ["train/1", "train/2"]


def test_train_size_is_a_function_of_the_seed(sets):
    def chosen(seed, size):
        return [q.id for q in data.load(sets(NUMBERS, train_size=size), seed, readable).train]

    assert chosen(0, 10) == chosen(0, 10) != chosen(1, 10)
    assert len(set(chosen(0, 10))) == 10
    assert set(chosen(0, 10)) < set(chosen(0, 20))
    assert chosen(3, None) == [f"train/{i}" for i in range(1, 41)]


def test_eval_is_the_same_for_every_seed(sets):
    def chosen(seed, size):
        return [q.id for q in data.load(sets([("a", "1")], NUMBERS, eval_size=size), seed, readable).eval]

    whole = chosen(0, None)
    assert sorted(whole) == sorted(f"eval/{i}" for i in range(1, 41))
    assert whole != sorted(whole, key=lambda name: int(name.split("/")[1]))
    assert chosen(0, 10) == chosen(7, 10) == whole[:10]


@pytest.mark.parametrize("key", ["train_size", "eval_size"])
def test_a_size_above_the_set_is_refused(sets, key):
    message = refused(sets(NUMBERS, NUMBERS, **{key: 41}))
    assert message.startswith(f"data.{key}=41 is more than the 40 questions")


# the generator


@pytest.mark.parametrize("name", ["arithmetic", "countdown"])
def test_a_generator_is_disjoint_and_a_function_of_the_seed(name):
    config = preset(name, train_size=300, eval_size=60)
    first, again, other = (data.load(config, seed, readable) for seed in (0, 0, 1))
    assert (len(first.train), len(first.eval), first.notes) == (300, 60, ())
    assert first == again
    assert first.train != other.train and first.eval != other.eval and first.digest != other.digest
    assert not {q.text for q in first.train + other.train} & {q.text for q in first.eval + other.eval}


@pytest.mark.parametrize("name", ["arithmetic", "countdown"])
@pytest.mark.parametrize("key", ["train_size", "eval_size"])
def test_a_generator_needs_its_sizes(name, key):
    message = refused(preset(name, **{key: None}))
    assert message.startswith(f"data.{key} is empty: the {name} generator")


# filters, columns, digest

LEVELS = [{"question": f"q{i}", "answer": str(i), "level": level} for i, level in enumerate([1, 2, 3, 3, 5])]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def leveled(tmp_path, rows=LEVELS, **changes):
    """A config whose two sets are the same rows, with levels."""
    path = write(tmp_path / "rows.jsonl", rows)
    return preset("jsonl", train=path, eval=path, **changes)


def test_levels_keep_the_training_rows_that_have_them(tmp_path):
    found = data.load(leveled(tmp_path, levels=(3, "5")), 0, readable)
    assert [question.id for question in found.train] == ["rows/3", "rows/4", "rows/5"]
    assert len(found.eval) == 5  # never filtered
    assert found.notes == ("Kept 3 of 5 rows of data.train, those of the levels 3, 5 (data.levels).",)
    assert data.load(leveled(tmp_path), 0, readable).notes == ()


@pytest.mark.parametrize("level", ["Level 3", "3", "level 3", 3, 3.0])
def test_a_level_is_the_same_however_it_is_written(tmp_path, level):
    rows = [*LEVELS[:2], {"question": "of it", "answer": "1", "level": level}]
    for wanted in (3, "3", "Level 3"):
        found = data.load(leveled(tmp_path, rows, levels=(wanted,)), 0, readable)
        assert [question.text for question in found.train] == ["of it"]


def test_rows_of_other_levels_need_no_gold(tmp_path):
    rows = [*LEVELS, {"question": "unsolved", "answer": "", "level": "Level ?"}]
    write(tmp_path / "eval.jsonl", LEVELS)
    config = leveled(tmp_path, rows, levels=(3,))
    config = replace(config, eval=replace(config.eval, path=str(tmp_path / "eval.jsonl")))
    assert len(data.load(config, 0, readable).train) == 2
    assert "rows.jsonl:6: the gold answer" in refused(replace(config, levels=(3, "?")))


def test_a_level_that_no_row_has_is_refused(tmp_path):
    message = refused(leveled(tmp_path, levels=(3, 6)))
    assert 'data.levels: no row of data.train has the level "6".' in message
    assert 'Its levels (column "level", data.level_column) are 1, 2, 3, 5.' in message


def test_levels_need_their_column(tmp_path, sets):
    assert 'no column "level" (data.level_column)' in refused(sets(NUMBERS, levels=(3,)))
    assert len(data.load(sets(NUMBERS), 0, readable).train) == 40  # not read where no level is asked for
    rows = [{"question": row["question"], "answer": row["answer"], "difficulty": row["level"]} for row in LEVELS]
    found = data.load(leveled(tmp_path, rows, levels=(3,), level_column="difficulty"), 0, readable)
    assert len(found.train) == 2


def test_long_questions_are_left_out_of_training(sets):
    rows = [("a" * n, "1") for n in (3, 4, 5, 6)]
    found = data.load(sets(rows, rows, max_question_characters=5), 0, readable)
    assert [len(question.text) for question in found.train] == [3, 4, 5] and len(found.eval) == 4
    assert found.notes == ("Left out 1 of 4 questions of data.train, longer than data.max_question_characters=5.",)
    assert data.load(sets(rows, rows, max_question_characters=6), 0, readable).notes == ()
    assert "all 4 questions of data.train are longer" in refused(sets(rows, max_question_characters=2))


def test_sizes_count_the_rows_that_the_filters_left(sets):
    rows = [("a" * n, str(n)) for n in (3, 4, 5, 6)]
    assert len(data.load(sets(rows, max_question_characters=4, train_size=2), 0, readable).train) == 2
    assert "data.train_size=3 is more than the 2" in refused(sets(rows, max_question_characters=4, train_size=3))


def test_a_source_has_columns_of_its_own(tmp_path):
    path = write(tmp_path / "train.jsonl", [{"prompt": "p", "solution": "7", "question": "no", "answer": "0"}])
    config = preset("jsonl", train=path, eval=write(tmp_path / "eval.jsonl", [{"question": "q", "answer": "8"}]))
    own = replace(config.train, question_column="prompt", answer_column="solution")
    found = data.load(replace(config, train=own), 0, readable)
    assert [(q.text, q.gold) for q in found.train + found.eval] == [("p", "7"), ("q", "8")]
    message = refused(replace(config, train=replace(own, question_column="promt")))
    assert 'no column "promt" (data.train.question_column). Did you mean "prompt"?' in message


def test_a_float_that_is_whole_is_a_whole_number(sets):
    rows = [("a", 27.0), ("b", 0.5), ("c", -0.0), ("d", "27.0"), ("e", [27.0, 28.5]), ("f", 1e300)]
    assert golds(data.load(sets(rows), 0, readable).train) == ["27", "0.5", "0", "27.0", ("27", "28.5"), "1e+300"]


def test_a_worked_answer_without_a_match_is_left_out_where_that_is_asked_for(sets):
    rows = [("a", "#### 1"), ("b", "2*9=18\nso 18")]
    config = sets(rows, answer_pattern=GSM8K, unreadable_gold="drop")
    found = data.load(config, 0, unreadable)
    assert golds(found.train) == ["1"] and found.notes[0].startswith("Left out 1 of 2 rows of data.train")


SOLUTIONS = {
    r"We get $\boxed{7}$.": "7",
    "First $\\boxed{1}$,\nthen $\\boxed{\\frac{1}{2}}$.": r"\frac{1}{2}",
    r"So \boxed{\left\{ x : \frac{1}{\sqrt{2}} < x \right\}}": r"\left\{ x : \frac{1}{\sqrt{2}} < x \right\}",
    "Thus\n\\fbox{3}": "3",
    r"\boxed{\text{(B)}\ \frac{a^{b_{c}}}{2}}": r"\text{(B)}\ \frac{a^{b_{c}}}{2}",
}


def test_the_math_preset_takes_the_box_of_the_solution(tmp_path):
    rows = [{"problem": f"q{i}", "solution": text} for i, text in enumerate([*SOLUTIONS, "no box\nat all"])]
    config = preset("math", train=write(tmp_path / "train.jsonl", rows), eval=write(
        tmp_path / "eval.jsonl", [{"problem": "q", "answer": r"\frac{3}{4}"}]
    ))  # fmt: skip
    found = data.load(config, 0, unreadable)
    assert golds(found.train) == list(SOLUTIONS.values()) and golds(found.eval) == [r"\frac{3}{4}"]
    assert found.notes[0].startswith("Left out 1 of 6 rows of data.train")


def test_the_digest_is_the_sha256_of_questions_and_golds_in_order(sets, tmp_path):
    first = data.load(sets([("é", "1"), ("b", ["2", "3"])]), 0, readable)
    told = '["é", "1"]\n["b", "2", "3"]\n'
    assert first.digest == hashlib.sha256(told.encode()).hexdigest()
    moved = write(tmp_path / "other.jsonl", [{"question": "é", "answer": 1}, {"question": "b", "answer": ["2", "3"]}])
    assert data.load(preset("jsonl", train=moved, eval=moved), 0, readable).digest == first.digest
    for rows in ([("b", ["2", "3"]), ("é", "1")], [("é", "1"), ("b", ["2", "4"])], [("é", "1"), ("b", "2")]):
        assert data.load(sets(rows), 0, readable).digest != first.digest
    assert data.load(sets([("é", "1"), ("b", ["2", "3"])], [("other", "9")]), 0, readable).digest == first.digest


# one set of evaluation.sets


def of(path, **changes):
    values = {"hub_id": None, "hub_config": None, "split": "test", "revision": None, "question_column": None,
              "answer_column": None, "answer_pattern": None}  # fmt: skip
    return SetConfig(path=str(path), **(values | changes))


def test_held_out_has_every_row_once_in_the_order_of_eval(sets, tmp_path):
    config = sets([("a", "1")], NUMBERS, eval_size=3, max_question_characters=1, levels=())
    found = data.held_out(config, "mine", of(tmp_path / "eval.jsonl"), readable)
    assert sorted(found, key=lambda question: int(question.gold)) == [
        type(found[0])(f"eval/{i + 1}", f"q{i}", str(i)) for i in range(40)
    ]
    assert found == data.load(replace(config, eval_size=None), 7, readable).eval


def test_held_out_takes_null_from_data_and_its_own_before_it(sets, tmp_path):
    config = sets([("a", "#### 1")], answer_pattern=GSM8K)
    rows = [{"question": "q", "answer": "so\n#### 5", "problem": "p", "final": "[6]\n"}]
    path = write(tmp_path / "set.jsonl", rows)
    (plain,) = data.held_out(config, "mine", of(path), readable)
    (own,) = data.held_out(
        config, "mine", of(path, question_column="problem", answer_column="final", answer_pattern=r"\[(.)\]"), readable
    )
    assert ((plain.text, plain.gold), (own.text, own.gold)) == (("q", "5"), ("p", "6"))


def test_a_pattern_of_data_is_not_taken_to_another_answer_column(sets, tmp_path):
    config = sets([("a", "#### 1")], answer_pattern=GSM8K)
    path = write(tmp_path / "set.jsonl", [{"question": "q", "answer": "#### 5", "final": "x\n= #### 6"}])
    (own,) = data.held_out(config, "mine", of(path, answer_column="final"), readable)
    assert own.gold == "x\n= #### 6"


def test_held_out_reads_several_answers_and_floats(sets, tmp_path):
    rows = [{"question": "minerva", "answer": ["8.7e8", r"8.7 \times 10^8"]}, {"question": "amc", "answer": 27.0}]
    found = data.held_out(sets([("a", "1")]), "mine", of(write(tmp_path / "set.jsonl", rows)), unreadable)
    assert {question.text: question.gold for question in found} == {
        "minerva": ("8.7e8", r"8.7 \times 10^8"),
        "amc": "27",
    }


@pytest.mark.parametrize("drop", ["error", "drop"])
def test_held_out_counts_every_row_so_it_refuses_an_unreadable_one(sets, tmp_path, drop):
    config = sets([("a", "1")], unreadable_gold=drop)
    for rows, said in (
        ([("a", "1"), ("b", "proof")], "set.jsonl:2: the gold answer 'proof' cannot be read"),
        ([("a", "1"), ("b", "")], 'set.jsonl:2: the gold answer (column "answer") is empty'),
    ):
        path = write(tmp_path / "set.jsonl", [{"question": q, "answer": a} for q, a in rows])
        with pytest.raises(InputError) as error:
            data.held_out(config, "mine", of(path), unreadable)
        assert said in str(error.value) and "evaluation.sets.mine" in str(error.value)
        assert "data.unreadable_gold" not in str(error.value)


def test_held_out_names_its_own_keys(sets, tmp_path):
    config = sets([("a", "1")])
    path = write(tmp_path / "set.jsonl", [{"question": "q", "answer": "1"}])
    for source, said in (
        (of(path, question_column="problem"), "evaluation.sets.mine.question_column"),
        (of(path, answer_pattern="("), "evaluation.sets.mine.answer_pattern"),
        (of(tmp_path / "none.jsonl"), "evaluation.sets.mine.path"),
    ):
        with pytest.raises(InputError, match=said):
            data.held_out(config, "mine", source, readable)


# conf/data

PRESETS = sorted(path.stem for path in CONF.glob("*.yaml"))


def test_the_presets_are_there():
    assert set(PRESETS) >= {
        "arithmetic", "countdown", "gsm8k", "math", "math_12k", "math_lvl3to5", "orz_57k", "dapo_17k", "deepscaler", "big_math",
        "deepmath", "numina", "openr1_220k", "simplerl", "asdiv", "svamp", "reasoning_gym", "jsonl", "parquet", "hub",
    }  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_data_config(name):
    assert isinstance(preset(name), DataConfig)


def test_a_wrong_preset_would_be_seen():
    values = yaml.safe_load((CONF / "gsm8k.yaml").read_text())
    for wrong in (values | {"typo": 1}, values | {"short_batch": "cut"}, values | {"train": {}}):
        with pytest.raises(ValidationError):
            TypeAdapter(DataConfig).validate_json(json.dumps(wrong))


FILES = sorted([*CONF.glob("*.yaml"), *CONF.parent.glob("prompt/*.yaml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_key_has_a_comment_above_it(path):
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# ") and len(lines[0]) <= 120
    in_block = False
    for above, line in pairwise(lines):
        in_block = in_block and (line.startswith("  ") or not line)
        if line and not line.lstrip().startswith("#") and not in_block:
            assert above.lstrip().startswith("# "), line
            in_block = line.rstrip().endswith(("|", "|-"))


NO_SOURCE = ["jsonl", "parquet", "hub", "math_lvl3to5", "orz_57k", "simplerl", "asdiv", "reasoning_gym"]


@pytest.mark.parametrize("name", NO_SOURCE)
def test_a_preset_without_a_source_names_the_key(name):
    assert "data.train.path" in refused(preset(name))


def test_the_gsm8k_preset_reads_its_hub_form():
    config = preset("gsm8k")
    hub = SourceConfig(
        path=None, hub_id="openai/gsm8k", hub_config="main", split="train",
        revision="740312add88f781978c0658806c59bc2815b9866", question_column=None, answer_column=None,
    )  # fmt: skip
    assert config.train == hub and config.eval == replace(hub, split="test")
    assert config.answer_pattern == GSM8K


def test_the_parquet_preset(tmp_path):
    for name in ("train", "eval"):
        pq.write_table(pa.table({"question": [name, "b"], "answer": [1.5, 2.0]}), tmp_path / f"{name}.parquet")
    config = preset("parquet", train=tmp_path / "train.parquet", eval=tmp_path / "eval.parquet")
    assert golds(data.load(config, 0, readable).train) == ["1.5", "2"]
    pq.write_table(pa.table({"question": ["a", "b"], "answer": [1.5, None]}), tmp_path / "train.parquet")
    assert "train.parquet: row 2: the gold answer" in refused(config)


def test_gsm8k_from_local_files():
    """The cleaned files hold bare answers, and in the test set the worked solution as published beside them."""
    if not SHARED.is_dir():
        pytest.skip("the project's shared folder with GSM8K is not beside this checkout")
    config = preset("gsm8k", train=SHARED / "gsm8k_train.jsonl", eval=SHARED / "gsm8k_test.jsonl")
    sets = data.load(config, 0, readable)
    assert (len(sets.train), len(sets.eval), sets.notes) == (7473, 1319, ())
    assert sets.train[0].gold == "72"
    worked = data.load(replace(config, train=config.eval, answer_column="solution"), 0, readable).eval
    assert [gold.replace(",", "") for gold in golds(worked)] == golds(sets.eval)


def test_math_12k_from_local_files():
    if not SHARED.is_dir():
        pytest.skip("the project's shared folder with MATH is not beside this checkout")
    train = SHARED / "math12k_rebuilt_test_remainder_4500.jsonl"
    config = preset("math_12k", train=train, eval=SHARED / "math500.jsonl", question_column="question")
    sets = data.load(config, 0, readable)
    assert (len(sets.train), len(sets.eval), sets.notes) == (4500, 500, ())
    message = refused(replace(config, train=replace(config.train, path=str(SHARED / "math_train_7500.jsonl"))))
    assert "2 of 7500 rows of data.train have none" in message


def test_levels_3_to_5_of_math_from_local_files(tmp_path):
    """8,888 of the 12,000: the count of the levels that is known from elsewhere (2,618 + 2,776 + 3,494)."""
    if not SHARED.is_dir():
        pytest.skip("the project's shared folder with MATH is not beside this checkout")
    path = tmp_path / "math12k.jsonl"
    names = ("math_train_7500.jsonl", "math12k_rebuilt_test_remainder_4500.jsonl")
    path.write_text("".join((SHARED / name).read_text() for name in names))
    config = preset("math_12k", train=path, eval=SHARED / "math500.jsonl", question_column="question")
    config = replace(config, levels=(3, 4, 5), unreadable_gold="drop")
    notes = data.load(config, 0, readable).notes
    assert notes[0] == "Kept 8,888 of 12,000 rows of data.train, those of the levels 3, 4, 5 (data.levels)."


def test_data_eval_alone_is_that_of_load(tmp_path):
    """The `evaluate` command reads no training set: the same questions, dropped rows and keys in messages."""
    rows = [{"question": f"{n}", "answer": f"{n}" if n else ""} for n in range(9)]
    (tmp_path / "eval.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["data=jsonl", f"data.eval.path={tmp_path}/eval.jsonl", "data.eval_size=5", "data.unreadable_gold=drop"]
    both = compose([*words, f"data.train.path={tmp_path}/eval.jsonl"]).data
    assert data.eval_questions(compose(words).data, 3, unreadable) == data.load(both, 3, unreadable).eval
    assert len(data.load(both, 3, unreadable).eval) == 5
    with pytest.raises(InputError, match="data.eval.path: there is no file"):
        data.eval_questions(compose(["data=jsonl", "data.eval.path=none.jsonl"]).data, 3, unreadable)
    made = compose(["data.train_size=5", "data.eval_size=5"]).data
    assert data.eval_questions(made, 3, unreadable) == data.load(made, 3, unreadable).eval
