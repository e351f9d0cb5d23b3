#!/usr/bin/env bash
# Raschka's GRPO from scratch on Qwen3-0.6B: MATH-500 after 50 of 100 steps, greedy, up to 2048 tokens.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" rasbt_qwen3_0_6b rasbt.qwen3_0_6b.step_50 "--steps 50" "$@"
