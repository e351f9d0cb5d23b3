#!/usr/bin/env bash
# Raschka's GRPO from scratch on Qwen3-0.6B; evaluated after 50 and after 100 steps. Author: one GPU, 20.31 GB.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" rasbt_qwen3_0_6b rasbt.qwen3_0_6b.step50 "--steps 50,100" "$@"
