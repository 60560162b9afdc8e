#!/usr/bin/env bash
# Counts the instructions of simulations and compares them with the recorded counts.
#
#   scripts/instructions.sh [--bless]
#
# Instructions do not depend on what else the computer does. Each count is the difference of two runs, the second twice as long: building the
# machine cancels out. More than 2 % above the record is an error; more than 2 % below asks for a new record. `--bless` writes it.
# They do depend on the compiler, which rust-toolchain.toml fixes, and a little on the C library's choice of memcpy.
# valgrind counts; without it the script prints "skipped" and ends well.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
record=crates/sim/benches/instructions.csv

command -v valgrind >/dev/null || { echo "skipped: no valgrind (apt-get install valgrind)" >&2; exit 0; }
cargo build --release --quiet -p zerolag-sim --example speed
program=${CARGO_TARGET_DIR:-target}/release/examples/speed

count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$@" 2>&1 >/dev/null | sed -n 's/.*Collected : //p'
}
# Prints the events of a run, as the example counts them.
events() {
    "$program" "$@" | grep -oE '(wakeups|switches|completions): [0-9]+' | awk '{ sum += $2 } END { print sum }'
}

new=$(mktemp)
trap 'rm -f "$new"' EXIT
echo "workload,seconds,instructions,events" >"$new"
sed 1d "$record" | while IFS=, read -r workload seconds _ _; do
    twice=$(awk -v s="$seconds" 'BEGIN { print 2 * s }')
    instructions=$(($(count "$workload" "$twice") - $(count "$workload" "$seconds")))
    events=$(($(events "$workload" "$twice") - $(events "$workload" "$seconds")))
    echo "$workload,$seconds,$instructions,$events"
done >>"$new"

if [ "${1:-}" = --bless ]; then
    cat "$new" >"$record"
    exit
fi
awk -F, '
    FNR == 1 { next }
    NR == FNR { before[$1] = $3; next }
    {
        change = 100 * ($3 / before[$1] - 1)
        verdict = change > 2 ? "more than recorded" : change < -2 ? "less: record it, ./x bench --bless" : ""
        printf "%-10s %12d instructions, %6d per event, recorded %12d, %+5.1f %%  %s\n", $1, $3, $3 / $4, before[$1], change, verdict
        worse += change > 2
    }
    END { exit worse > 0 }' "$record" "$new"
