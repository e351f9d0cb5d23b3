"""How many rows a question set has, where that is known without loading it, and which sets hold others' questions."""

from __future__ import annotations

from pathlib import Path

from ..schema import DataConfig, RunConfig, SourceConfig

# (hub id, configuration, split): rows, as its card says or counted
ROWS = {
    ("openai/gsm8k", "main", "train"): 7_473,
    ("openai/gsm8k", "main", "test"): 1_319,
    ("HuggingFaceH4/MATH-500", None, "test"): 500,
    ("lkevinzc/math-12k", None, "train"): 12_000,
    ("EleutherAI/hendrycks_math", None, "train"): 7_500,
    ("EleutherAI/hendrycks_math", None, "test"): 5_000,
    ("hendrycks/competition_math", None, "train"): 7_500,
    ("hendrycks/competition_math", None, "test"): 5_000,
    ("DigitalLearningGmbH/MATH-lighteval", None, "train"): 7_500,
    ("DigitalLearningGmbH/MATH-lighteval", None, "test"): 5_000,
    ("open-r1/DAPO-Math-17k-Processed", "all", "train"): 17_398,
    ("open-r1/DAPO-Math-17k-Processed", "en", "train"): 14_116,
    ("open-r1/DAPO-Math-17k-Processed", "cn", "train"): 3_282,
    ("lkevinzc/math-eval", None, "aime"): 30,
    ("lkevinzc/math-eval", None, "amc"): 83,
    ("lkevinzc/math-eval", None, "math"): 500,
    ("lkevinzc/math-eval", None, "minerva"): 272,
    ("lkevinzc/math-eval", None, "olympiad_bench"): 675,
}
# names of files that papers' repositories use
FILES = {"math_12k": 12_000, "math_lvl3to5_8k": 8_523, "gsm_8k": 8_792, "asdiv_2k": 1_788, "orz_57k": 56_878}
# bytes of a file whose lines are counted
LARGEST = 64 * 2**20


def rows(data: DataConfig) -> tuple[int | None, str]:
    """(training rows that will be used, in words where that is from; None: not known before the set is loaded)."""
    if data.kind != "table":
        return data.train_size, "made by the generator"
    count, said = in_source(data.train)
    if count is not None and (data.levels or data.max_question_characters is not None):
        key = "data.levels" if data.levels else "data.max_question_characters"
        count, said = None, f"fewer than {count:,} ({said}): how many {key} leaves is not known before they are loaded"
    if data.train_size is not None and (count is None or data.train_size <= count):
        return data.train_size, "data.train_size"
    return count, said


def held_out(config: RunConfig) -> dict[str, tuple[SourceConfig, int | None]]:
    """{name: (source, rows that an evaluation takes of it)} of evaluation.sets, or of data.eval where it names none.

    None: not known before it is loaded; evaluation.questions is then the most.
    """
    asked, data = config.evaluation.questions, config.data
    if config.evaluation.sets:
        found = {name: (source, in_source(source)[0]) for name, source in config.evaluation.sets.items()}
        return {name: (source, min(asked, count) if count else None) for name, (source, count) in found.items()}
    there = data.eval_size
    if data.kind == "table":
        count = in_source(data.eval)[0]
        there = there if count is None else min(count, there or count)
    return {"data.eval": (data.eval, min(asked, there) if there else None)}


def in_source(source: SourceConfig) -> tuple[int | None, str]:
    """Rows of one source before sizes and filters."""
    if source.path is not None:
        return _in_file(Path(source.path).expanduser())
    if source.hub_id is None:
        return None, "no source is given yet"
    count = ROWS.get((source.hub_id, source.hub_config, source.split))
    return count, source.hub_id if count else f"size of {source.hub_id} not known before it is loaded"


def _in_file(path: Path) -> tuple[int | None, str]:
    try:
        if path.suffix == ".jsonl" and path.stat().st_size <= LARGEST:
            with path.open("rb") as file:
                return sum(1 for line in file if line.strip()), str(path)
        if path.suffix == ".parquet" and path.is_file():
            from pyarrow.parquet import read_metadata

            return read_metadata(path).num_rows, str(path)
        if path.suffix == ".arrow" and path.is_file():
            import pyarrow as pa

            with pa.ipc.open_stream(pa.memory_map(str(path))) as batches:
                return sum(batch.num_rows for batch in batches), str(path)
    except (OSError, ValueError):
        pass
    named = (
        path.parts[-3] if path.suffix == ".arrow" and len(path.parts) > 2 else path.stem
    )  # gsm_8k/train/data-….arrow
    if named in FILES and not path.exists():
        return FILES[named], f"{path} is not here; the set of that name has so many"
    return None, f"size of {path} not known before it is loaded" + ("" if path.exists() else " (it is not here)")


def name_of(source: SourceConfig) -> str:
    """What a source is called: its file's name or its hub id, with its split; '' for none.

    Arrow files are all called data-00000-of-00001: the two folders above tell them apart (gsm_8k/train).
    """
    if source.path is not None:
        path = Path(source.path)
        return ("/".join(path.parts[-3:-1]) if path.suffix == ".arrow" else path.stem).lower()
    return f"{source.hub_id}:{source.split}".lower() if source.hub_id is not None else ""


def _is_gsm8k_test(name: str) -> bool:
    return "gsm8k" in name and "train" not in name


def _is_math_test(name: str) -> bool:
    """The whole test split of MATH, of which MATH-500 is a part."""
    return any(part in name for part in ("hendrycks", "competition_math", "math-lighteval")) and name.endswith("test")


# (part of a training set's name, which evaluation sets it holds, in words, source)
KNOWN_OVERLAPS = (
    (
        "gsm_8k",
        _is_gsm8k_test,
        "oat's gsm_8k is the training and the test set of GSM8K together (8,792 = 7,473 + 1,319 rows)",
        "counted in understand-r1-zero, datasets/train/gsm_8k: all 1,319 matched",
    ),
    *(
        (
            name,
            _is_math_test,
            f"{name} holds 4,500 of the 5,000 test questions of MATH (not those of MATH-500)",
            "12,000 = 7,500 + 4,500",
        )
        for name in ("math-12k", "math_12k")  # on the hub, and in the authors' repository
    ),
)
