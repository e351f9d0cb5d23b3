#!/usr/bin/env bash
# DeepSeekMath-RL 7B: of its four sets the English ones, GSM8K and MATH, greedy (DeepSeekMath, Table 5).
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" deepseekmath_grpo deepseekmath.table5.rl_7b_cot "evaluation=gsm8k_and_math" "$@"
