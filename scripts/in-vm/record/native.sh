#!/usr/bin/env bash
# Records workloads on this computer's own kernel, as record.sh does in a virtual machine: a second witness of two CPUs. Other programs disturb a take, so the
# log has the load and what other threads ran.
#
#   scripts/in-vm/record/native.sh OUT WORKLOAD.toml...
#
# As root, on an idle computer with tracefs and the cpu controller of cgroup v1 or v2. Plays each workload TAKES times (1) and writes what record.sh writes. Autogroups are
# switched off meanwhile: with them a task of the root group is in the group of its session.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${1:?directory}
shift
skip() { echo "skipped: $*" >&2; exit 0; }
[ "$(id -u)" = 0 ] || skip "not root"
t=/sys/kernel/tracing
[ -w $t/trace_clock ] || skip "no tracefs in $t"
v2=/sys/fs/cgroup v1=/sys/fs/cgroup/cpu
[ -e $v2/cgroup.controllers ] || [ -e $v1/cpu.shares ] || skip "no cpu controller"
for tool in gcc python3; do command -v "$tool" > /dev/null || skip "no $tool"; done
mkdir -p "$out"
work=$(mktemp -d)
autogroup=/proc/sys/kernel/sched_autogroup_enabled
before=$(cat $autogroup 2> /dev/null || true)
remove=
restore() {
    echo 0 > $t/tracing_on
    for event in $events; do echo 0 > $t/events/sched/$event/enable; done
    [ -z "$before" ] || echo "$before" > $autogroup
    # A take that was stopped leaves its groups, which are empty once its tasks have died.
    for _ in 1 2 3 4 5; do
        [ -n "$remove" ] && ! bash "$remove" 2> /dev/null || break
        sleep 0.2
    done
    rm -rf "$work"
}
events="sched_switch sched_waking sched_wakeup_new sched_migrate_task sched_process_fork sched_pi_setprio"
trap restore EXIT
gcc -O2 -Wall -static -pthread -o "$work/play" "$here/play.c"
[ -z "$before" ] || echo 0 > $autogroup

# What plan.py writes for cgroup v2 in the words of v1: the same scheduler's settings.
in_v1() {
    sed -e "/subtree_control/d" -e "s#$v2/#$v1/#g" \
        -e "s#^echo '\([0-9]*\)' > \(.*\)/cpu.weight\$#echo \$((\1 * 1024 / 100)) > \2/cpu.shares#" \
        -e "s#^echo '\([0-9]*\) \([0-9]*\)' > \(.*\)/cpu.max\$#echo \2 > \3/cpu.cfs_period_us; echo \1 > \3/cpu.cfs_quota_us#" \
        -e "s#^echo \(.*\) > \(.*\)/cpu.max.burst\$#echo \1 > \2/cpu.cfs_burst_us#"
}
echo mono > $t/trace_clock
echo 20000 > $t/buffer_size_kb
for event in $events; do echo 1 > $t/events/sched/$event/enable; done
echo "== Linux $(uname -r), $(nproc) CPU, preempt: $(cat /sys/kernel/debug/sched/preempt 2> /dev/null || true)" >> "$out/log"
for workload in "$@"; do
    name=$(python3 "$here/plan.py" --name "$workload")
    python3 "$here/plan.py" "$workload" "$work/$name"
    for part in make remove play; do
        [ -e $v2/cgroup.controllers ] || { in_v1 < "$work/$name.$part" > "$work/v1"; mv "$work/v1" "$work/$name.$part"; }
    done
    for take in $(seq "${TAKES:-1}"); do
        remove=$work/$name.remove
        bash "$work/$name.make"
        echo > $t/trace
        echo 1 > $t/tracing_on
        code=0
        "$work/play" "$work/$name.play" > "$work/out" 2>&1 || code=$?
        echo 0 > $t/tracing_on
        bash "$remove"
        remove=
        lost=$(grep -h '^overrun' $t/per_cpu/cpu*/stats | tr '\n' ' ')
        echo "== case $name, take $take: code $code, $(tr '\n' ' ' < "$work/out"), $lost load $(cut -d' ' -f1 /proc/loadavg)" >> "$out/log"
        sed -n 's/^origin //p' "$work/out" > "$out/$name.$take.origin"
        cat $t/trace | gzip -c > "$out/$name.$take.txt.gz"
    done
done
