#!/usr/bin/env bash
# Oat-Zero-1.5B: Dr. GRPO on Qwen2.5-Math-1.5B (Dr. GRPO, Table 4). Authors: 8 x A100, about a day.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" dr_grpo_oat_zero_1_5b dr_grpo.table4.oat_zero_1_5b "evaluation=dr_grpo_suite" "$@"
