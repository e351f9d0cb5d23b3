#!/usr/bin/env bash
# SimpleRL-Zoo on Qwen2.5-Math-7B: of its seven sets MATH-500, one sample at temperature 1, top-p 0.95.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" simplerl_zoo_math_7b simplerl_zoo.readme.qwen2_5_math_7b "evaluation=math500 evaluation.samples=1 evaluation.greedy=false evaluation.temperature=1.0 evaluation.top_p=0.95 evaluation.max_new_tokens=3072" "$@"
