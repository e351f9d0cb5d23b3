#!/usr/bin/env bash
# DeepSeekMath-RL 7B: GRPO (DeepSeekMath, Table 5). Hardware not stated.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" deepseekmath_grpo deepseekmath.table5.rl_7b "" "$@"
