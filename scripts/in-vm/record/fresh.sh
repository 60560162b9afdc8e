#!/usr/bin/env bash
# Makes a fresh held-out set in one command: draws workloads, records them on kernels in virtual time, and writes the set for `zerolag validate`.
#
#   scripts/in-vm/record/fresh.sh SEED [ON_ONE_CPU [ON_TWO_CPUS]]
#
# Writes conformance/fresh-SEED (else OUT) with so many workloads (20 and 12), drawn by draw.py. KERNELS names the recorded kernels ("7.3 6.12"): a series, whose newest
# image apt finds as run.sh does, or SERIES=IMAGE. TAKES recordings of each (4). Traces stay in target/vm/fresh-SEED (else WORK); what is there already is not recorded again,
# so that a run that was stopped goes on. A take is 5 s of one CPU of this computer, 10 s with two virtual ones.
# A set is held out: no rule of the scheduler is changed for it in the release that quotes it. After that, draw another one.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../../.." && pwd)
seed=${1:?seed} one=${2:-20} two=${3:-12}
work=$repository/target/vm
raw=${WORK:-$work/fresh-$seed}
set=${OUT:-$repository/conformance/fresh-$seed}
mkdir -p "$work" "$raw"
. "$here/../kernel.sh"
export TAKES=${TAKES:-4}

# One boot per five workloads: a boot that is cut short costs those only.
batches() {
    local series=$1 image=$2 cpus=$3 out=$raw/$1-$3 workload
    local -a batch=()
    mkdir -p "$out"
    for workload in "$raw"/drawn/drawn-"$cpus"-*.toml end; do
        [ "$workload" = end ] || [ -e "$out/$(basename "$workload" .toml).$TAKES.txt.gz" ] || batch+=("$workload")
        if [ ${#batch[@]} = 5 ] || { [ "$workload" = end ] && [ ${#batch[@]} != 0 ]; }; then
            "$here/record.sh" "$image" "$cpus" "$out/batch" "${batch[@]}"
            [ -e "$out/batch/log" ] || exit 0 # record.sh has said what is missing
            cat "$out/batch/log" >> "$out/log"
            rm "$out/batch/log"
            mv "$out"/batch/* "$out/"
            batch=()
        fi
    done
}

# Settings of the kernel that the preset of its release does not have, from the log of its boot.
settings() { sed -n 's/^== Linux .*preempt: .*(\([a-z]*\)).*/preempt=\1/p' "$1" | head -1; }

for cpus in 1 2; do
    python3 "$here/draw.py" "$seed" "$([ $cpus = 1 ] && echo "$one" || echo "$two")" $cpus "$raw/drawn"
done
declare -A recordings=()
for named in ${KERNELS:-7.3 6.12}; do
    series=${named%%=*}
    image=$(kernel "${named#*=}") || { echo "skipped: no kernel $series: apt has no image of it; give SERIES=IMAGE in KERNELS" >&2; exit 0; }
    for cpus in 1 2; do
        batches "$series" "$image" $cpus
        recordings[$cpus]+=" $series=$raw/$series-$cpus,$(settings "$raw/$series-$cpus/log")"
    done
done
for workload in "$raw"/drawn/drawn-*.toml; do
    cpus=$(basename "$workload" | cut -d- -f2)
    # shellcheck disable=SC2086
    python3 "$here/figures.py" "$set" "$workload" "$cpus" ${recordings[$cpus]}
done
echo "$set"
