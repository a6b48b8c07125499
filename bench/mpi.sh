#!/usr/bin/env bash
# Two ranks of one thread beside one process with two threads, in turn: median words/s of the last steps of short runs.
#   bench/mpi.sh MPIRUN BOWLINE DATA [ROUNDS]      BOWLINE was built with --features mpi; DATA is a corpus, such as ptb
set -euo pipefail
mpirun=$1 bowline=$2 data=$3 rounds=${4:-5}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
LD_LIBRARY_PATH=$(dirname "$mpirun")/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Some hundred steps: 140,000 words are 200 steps of 20 streams and 35 words. One epoch, a short validation.
train=(train --data "$data" --model real --size small --epochs 1 --set data.train_words=140001 --set data.valid_words=2000)
speed() { # the median of the speeds in the log, which has 20 of them an epoch
    grep -o '"words_per_second":[0-9.]*' "$1/events.jsonl" | cut -d: -f2 | tail -n 15 | sort -g | sed -n 8p
}
for ((i = 1; i <= rounds; i++)); do
    "$bowline" "${train[@]}" --threads 2 --out "$work/one-$i" >/dev/null 2>&1
    "$mpirun" -n 2 "$bowline" "${train[@]}" --threads 1 --out "$work/two-$i" >/dev/null 2>&1
    one=$(speed "$work/one-$i") two=$(speed "$work/two-$i")
    echo "round $i: one process, 2 threads $one words/s; 2 ranks of 1 thread $two words/s; $(echo "scale=3; $two / $one" | bc)"
done | tee "$work/rounds"
awk '{print $NF}' "$work/rounds" | sort -g | awk '{r[NR] = $1} END {print "median ratio " r[int((NR + 1) / 2)]}'
