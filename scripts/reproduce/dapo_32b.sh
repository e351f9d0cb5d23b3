#!/usr/bin/env bash
# DAPO on Qwen2.5-32B: AIME 2024, avg@32.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" dapo_32b dapo.table1.dapo "evaluation=aime evaluation.samples=32 evaluation.greedy=false evaluation.temperature=1.0 evaluation.top_p=0.7" "$@"
