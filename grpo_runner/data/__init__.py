"""Questions with exact answers: embedded generators, JSONL, Parquet and Arrow files, the Hugging Face hub."""

from .load import DataSets, eval_questions, glance, held_out, held_out_sets, load

__all__ = ["DataSets", "eval_questions", "glance", "held_out", "held_out_sets", "load"]
