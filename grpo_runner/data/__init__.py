"""Questions with exact answers: the embedded arithmetic generator, JSONL and Parquet files, the Hugging Face hub."""

from .load import DataSets, load

__all__ = ["DataSets", "load"]
