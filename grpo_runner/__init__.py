"""grpo_runner: what does this change to the RL objective do to a model that learns mathematics?"""

__version__ = "0.1.0"
