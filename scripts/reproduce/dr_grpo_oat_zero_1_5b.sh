#!/usr/bin/env bash
# Oat-Zero-1.5B: Dr. GRPO on Qwen2.5-Math-1.5B, its five sets, greedy (Dr. GRPO, Table 4).
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" dr_grpo_oat_zero_1_5b dr_grpo.table4.oat_zero_1_5b "evaluation=dr_grpo_suite" "$@"
