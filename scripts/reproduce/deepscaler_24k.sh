#!/usr/bin/env bash
# DeepScaleR's last stage: give model.path=FOLDER of the 16k run's model. Four of its five sets, avg@16: its AMC23 is not ours.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" deepscaler_24k deepscaler.readme.deepscaler_1_5b_preview "evaluation=dr_grpo_suite ~evaluation.sets.amc evaluation.samples=16 evaluation.greedy=false evaluation.temperature=0.6 evaluation.max_new_tokens=null" "$@"
