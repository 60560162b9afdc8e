#!/usr/bin/env bash
# Measures busy loops under cpu.max on this host, as root: the cases of crates/core/tests/data/linux-bandwidth.csv, one row of that format each.
#
#   conformance/measure-bandwidth.sh [SECONDS [LOOPS:QUOTA_US:PERIOD_US]...] > host.csv
#
# cgroup v1 or v2, whichever has the cpu controller below CGROUP_ROOT (/sys/fs/cgroup). A case runs a second before it is measured, then
# SECONDS (4). The script creates one group, changes nothing else, and removes the group and its loops however it ends. Other programs on the
# host distort the result: measure on an idle one.
set -euo pipefail

window=${1:-4}
shift || true
cpus=$(nproc)
cases=("$@")
if [ ${#cases[@]} = 0 ]; then
    for share in 10 50 100; do
        cases+=("$cpus:$((share * 1000)):100000" "$cpus:$((share * 100)):10000" "$((2 * cpus)):$((share * 1000)):100000")
    done
    cases+=("$cpus:$((cpus * 100000)):100000" "$cpus:125000:250000")
fi

root=${CGROUP_ROOT:-/sys/fs/cgroup}
if [ -e "$root/cgroup.controllers" ] && grep -qw cpu "$root/cgroup.controllers"; then
    version=2
    grep -qw cpu "$root/cgroup.subtree_control" || {
        echo "the cpu controller is not enabled for groups: echo +cpu > $root/cgroup.subtree_control" >&2
        exit 1
    }
else
    version=1
    root=$(awk '$3 == "cgroup" && $4 ~ /(^|,)cpu(,|$)/ { print $2; exit }' /proc/mounts)
    [ -n "$root" ] || { echo "no cgroup hierarchy has the cpu controller" >&2; exit 1; }
fi
group=$root/zerolag-bandwidth-$$
pids=()

stop() {
    local pid
    for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    pids=()
}
finish() {
    stop
    # A killed task leaves its group a moment later.
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -d "$group" ] || return 0
        rmdir "$group" 2>/dev/null || sleep 0.2
    done
}
trap finish EXIT
trap 'exit 130' HUP INT TERM
mkdir "$group" || { echo "cannot make $group: this needs root" >&2; exit 1; }

limit() { # quota period, in microseconds
    if [ $version = 2 ]; then
        echo "$1 $2" > "$group/cpu.max"
    else
        echo -1 > "$group/cpu.cfs_quota_us"
        echo "$2" > "$group/cpu.cfs_period_us"
        echo "$1" > "$group/cpu.cfs_quota_us"
    fi
}
stat() { # a key of cpu.stat; throttled time in microseconds
    case "$1:$version" in
        throttled:1) awk '$1 == "throttled_time" { print sprintf("%.0f", $2 / 1000) }' "$group/cpu.stat" ;;
        throttled:2) awk '$1 == "throttled_usec" { print $2 }' "$group/cpu.stat" ;;
        *) awk -v key="$1" '$1 == key { print $2 }' "$group/cpu.stat" ;;
    esac
}
used() { # CPU time of the loops in microseconds; fails if one has ended, as one does that cannot join the group
    local pid sum=0 time state
    for pid in "${pids[@]}"; do
        read -r _ _ state _ < "/proc/$pid/stat" && [ "$state" != Z ] || return 1
        read -r time _ < "/proc/$pid/schedstat" || return 1
        sum=$((sum + time / 1000))
    done
    echo "$sum"
}
now() { echo $(($(date +%s%N) / 1000)); }

kernel=$(uname -r | awk -F. '{ print $1 "." $2 }')
echo "kernel,cpus,hogs,quota_us,period_us,window_us,used_us,nr_periods,nr_throttled,throttled_us"
for case in "${cases[@]}"; do
    IFS=: read -r loops quota period <<< "$case"
    limit "$quota" "$period"
    for ((i = 0; i < loops; i++)); do
        (exec bash -c 'echo $$ > "$1" || exit 1; while :; do :; done' loop "$group/cgroup.procs") &
        pids+=($!)
    done
    sleep 1
    from=$(now)
    used=$(used) || { echo "a loop could not join $group" >&2; exit 1; }
    periods=$(stat nr_periods) throttled=$(stat nr_throttled) time=$(stat throttled)
    sleep "$window"
    to=$(now)
    used_then=$(used) || { echo "a loop could not join $group, or has been ended" >&2; exit 1; }
    periods_then=$(stat nr_periods) throttled_then=$(stat nr_throttled) time_then=$(stat throttled)
    stop
    echo "$kernel,$cpus,$loops,$quota,$period,$((to - from)),$((used_then - used)),$((periods_then - periods)),$((throttled_then - throttled)),$((time_then - time))"
done
