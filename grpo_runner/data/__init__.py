"""Questions with exact answers: embedded generators, JSONL and Parquet files, the Hugging Face hub."""

from .load import DataSets, held_out, held_out_sets, load

__all__ = ["DataSets", "held_out", "held_out_sets", "load"]
