#!/usr/bin/env bash
# DAPO on Qwen2.5-32B: AIME 2024, avg@32 (DAPO, Table 1).
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" dapo_32b dapo.table1.dapo "evaluation=aime ~evaluation.sets.aime25" "$@"
