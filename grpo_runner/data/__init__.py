"""Questions with exact answers: the embedded arithmetic generator, JSONL and Parquet files, the Hugging Face hub."""

from grpo_runner.data.load import DataSets, load

__all__ = ["DataSets", "load"]
