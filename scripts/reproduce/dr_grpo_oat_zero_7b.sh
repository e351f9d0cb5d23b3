#!/usr/bin/env bash
# Oat-Zero-7B: Dr. GRPO on Qwen2.5-Math-7B (Dr. GRPO, Table 4). Authors: 8 x A100-40G, 27 hours.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" dr_grpo_oat_zero_7b dr_grpo.table4.oat_zero_7b "evaluation=dr_grpo_suite" "$@"
