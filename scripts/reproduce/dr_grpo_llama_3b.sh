#!/usr/bin/env bash
# Oat-Zero-3B: Dr. GRPO on Llama-3.2-3B-NuminaQA (Dr. GRPO, Table 4). Authors: 8 x A100, about a day.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" dr_grpo_llama_3b dr_grpo.table4.oat_zero_3b "evaluation=dr_grpo_suite" "$@"
