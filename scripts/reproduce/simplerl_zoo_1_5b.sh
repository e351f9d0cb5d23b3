#!/usr/bin/env bash
# SimpleRL-Zoo 1_5b.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" simplerl_zoo_1_5b simplerl_zoo.1_5b "" "$@"
