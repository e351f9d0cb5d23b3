#!/usr/bin/env bash
# Tinker's math_rl on GSM8K with Llama-3.1-8B-Instruct. Hardware not stated (a service).
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" tinker_math_rl_8b_gsm8k tinker.math_rl.8b_gsm8k "evaluation=gsm8k_test" "$@"
