#!/usr/bin/env bash
# DeepScaleR's last stage, after its 8k and 16k ones (give model.path=FOLDER of the 16k run): MATH-500 of its five sets, avg@16.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" deepscaler_24k deepscaler.readme.deepscaler_1_5b_preview "evaluation=math500 evaluation.samples=16 evaluation.greedy=false evaluation.temperature=0.6" "$@"
