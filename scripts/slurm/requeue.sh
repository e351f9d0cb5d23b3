# shellcheck shell=bash
# Sourced by the job scripts beside it: `keep_going COMMAND …` runs a command and, near the job's end, lets it save and puts
# the job back into the queue, where the same command goes on from the last checkpoint.
#
# `#SBATCH --signal=B:USR1@300` sends SIGUSR1 to the batch script alone, 300 seconds before the time is up: more than a step and
# a save take. It is handed to the job's steps as SIGINT, on which a run finishes its step and saves: torchrun would die of SIGUSR1,
# and vLLM beside a run of SIGTERM. SIGTERM (pre-emption, scancel) is handed on too, which a run that has had it from Slurm does not
# mind. It does not requeue: after pre-emption Slurm does that itself (`#SBATCH --requeue`), after scancel nobody should.

# not put back whatever the clock says: 0 done, 2 bad input, 3 folder in use, 4 not finite, 5 a health stop
readonly FINAL=' 0 2 3 4 5 '

keep_going() {
    local code=0 told='' out_of_time=''
    trap 'told=1 out_of_time=1; scancel --signal=INT "$SLURM_JOB_ID" || true' USR1
    trap 'told=1; scancel --signal=INT "$SLURM_JOB_ID" || true' TERM
    "$@" &
    wait $! || code=$?
    while [[ -n $told ]]; do # the trap ended `wait`, with a code of its own; the command's is told by the next one
        told='' code=0
        wait $! || code=$?
    done
    trap - USR1 TERM
    if [[ -n $out_of_time && $FINAL != *" $code "* ]]; then
        echo "out of time, exit code $code: job $SLURM_JOB_ID goes back into the queue" >&2
        scontrol requeue "$SLURM_JOB_ID"
    fi
    return "$code"
}
