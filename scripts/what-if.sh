#!/usr/bin/env bash
# Records real workloads under two settings each, for docs/lab/predictions.md. As root, on a machine with cgroup v1 or v2.
#
#   scripts/what-if.sh DIRECTORY [build|hackbench|web|redis|workers|bursts ...]
#   scripts/what-if.sh --vm DIRECTORY [PROGRAM ...]     # in a virtual machine without other load, of more programs: what-if-vm.sh
#
# Every workload runs in groups of its own below /zl, on loopback, for a few seconds. A recording is made with the commands of
# `zerolag record --print-cmd perf --cgroup zl`: DIRECTORY/NAME.data (perf), NAME.txt.gz (tracefs), NAME.before and NAME.after (the groups), NAME.out (what the client says).
# ZEROLAG is the program. Missing programs make a workload skip with the reason. scripts/what-if.py imports and compares.
set -euo pipefail
if [ "${1:-}" = --vm ]; then
    shift
    exec "$(dirname "${BASH_SOURCE[0]}")/what-if-vm.sh" "$@"
fi
out=$(mkdir -p "${1:?a directory}" && cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- build hackbench web redis workers bursts
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ZEROLAG=${ZEROLAG:-$here/../target/quick/zerolag}
work=$(mktemp -d)
root=/sys/fs/cgroup
[ -e $root/cpu/cpu.shares ] && root=$root/cpu && v1=1 || v1=0
groups=(server client)

# limit GROUP QUOTA [BURST]: per 100 ms, in microseconds; -1 is none.
limit() {
    if [ $v1 = 1 ]; then
        echo 0 > "$root/zl/$1/cpu.cfs_burst_us"
        echo "$2" > "$root/zl/$1/cpu.cfs_quota_us"
        echo "${3:-0}" > "$root/zl/$1/cpu.cfs_burst_us"
    else
        echo 0 > "$root/zl/$1/cpu.max.burst"
        echo "${2/#-1/max} 100000" > "$root/zl/$1/cpu.max"
        echo "${3:-0}" > "$root/zl/$1/cpu.max.burst"
    fi
}
# in_group GROUP COMMAND...: becomes the command, at once or when the recorders record. They do not as soon as they are started: perf needs 3 s where a
# group with 20 times its weight computes, and hackbench was over by then.
in_group() {
    local group=$1
    shift
    sh -c 'echo $$ > "$0/cgroup.procs"; exec "$@"' "$root/zl/$group" "$@"
}
in_group_recorded() {
    local group=$1
    shift
    # In the group from the start: `cgroup.before` says so.
    sh -c 'echo $$ > "$0/cgroup.procs"; recorded=$1; shift; while [ ! -e "$recorded" ]; do sleep 0.05; done; sleep 0.3; exec "$@"' \
        "$root/zl/$group" "$work/recorded" "$@"
}
# record NAME SECONDS: the recipes of perf and tracefs at the same time: perf's for `perf sched timehist`, tracefs's because perf does not record what idle
# CPUs do in some virtual machines. What perf starts when it records says that to the programs first.
record() {
    mkdir -p "$work/$1"
    "$ZEROLAG" record --print-cmd perf --cgroup zl --seconds "$2" | sed "s#-- sleep $2#-- sh -c 'touch $work/recorded; exec sleep $2'#" > "$work/$1/perf.recipe"
    grep -q 'touch .*recorded' "$work/$1/perf.recipe"
    "$ZEROLAG" record --print-cmd tracefs --seconds "$2" | sed "s#sleep $2;#(cd $work/$1; bash -e perf.recipe) > $out/$1.log 2>\&1;#" > "$work/$1/recipe"
    grep -q perf.recipe "$work/$1/recipe"
    (cd "$work/$1" && bash -e recipe 2>&1) || true
    gzip -1c "$work/$1/trace.txt" > "$out/$1.txt.gz"
    rm "$work/$1/trace.txt"
    mv "$work/$1/perf.data" "$out/$1.data"
    rm -rf "$out/$1.before" "$out/$1.after"
    mv "$work/$1/cgroup.before" "$out/$1.before"
    mv "$work/$1/cgroup.after" "$out/$1.after"
    rm -f "$work/recorded"
    uptime >> "$out/$1.log"
}
have() {
    local program
    for program; do command -v "$program" > /dev/null || { echo "skipped: no $program" >&2; return 1; }; done
}
begin() {
    mkdir -p "$root/zl"
    [ $v1 = 1 ] || echo +cpu > "$root/zl/cgroup.subtree_control"
    local group
    for group in "${groups[@]}"; do mkdir -p "$root/zl/$group"; done
    # What else the machine does gets a twentieth while these work: it is another in every recording.
    if [ $v1 = 1 ]; then echo 20480 > $root/zl/cpu.shares; else echo 2000 > $root/zl/cpu.weight; fi
}
end() {
    local group pid
    for group in "${groups[@]}"; do
        [ -d "$root/zl/$group" ] || continue
        while read -r pid; do kill "$pid" 2> /dev/null || true; done < "$root/zl/$group/cgroup.procs"
    done
    sleep 0.5
    for group in "${groups[@]}"; do rmdir "$root/zl/$group" 2> /dev/null || true; done
    rmdir "$root/zl" 2> /dev/null || true
}
trap 'end; rm -rf "$work"' EXIT

build() {
    have make gcc || return 0
    local name=$1 quota=$2 at
    mkdir -p "$work/src"
    printf 'all: %s\n%%.o: %%.c\n\tgcc -O2 -c -o $@ $<\n' "$(for at in $(seq 16); do echo -n "f$at.o "; done)" > "$work/src/Makefile"
    for at in $(seq 16); do
        { echo '#include <stdio.h>'; for i in $(seq 60); do echo "int f${at}_$i(int x) { for (int i = 0; i < x; i++) printf(\"%d\", x ^ i); return x * $i; }"; done; } \
            > "$work/src/f$at.c"
    done
    rm -f "$work"/src/*.o
    limit client "$quota"
    in_group_recorded client bash -c "time make -s -j4 -C $work/src" > "$out/$name.out" 2>&1 &
    record "$name" 9
    wait $!
}
# hackbench beside two loops, all in one group; its nice level is what changes.
hackbench_() {
    have hackbench || return 0
    limit client -1
    local loop loops=()
    for loop in 1 2; do
        in_group_recorded client timeout 5 sh -c 'while :; do :; done' &
        loops+=($!)
    done
    in_group_recorded client nice -n "$2" hackbench -g 1 -f 5 -l 15000 > "$out/$1.out" 2>&1 &
    record "$1" 5
    wait $! "${loops[@]}" || true
}
web() {
    have nginx wrk || return 0
    mkdir -p "$work/www"
    head -c 20000 /dev/zero | tr '\0' x > "$work/www/index.html"
    cat > "$work/nginx.conf" <<CONF
worker_processes $3; daemon off; pid $work/nginx.pid; error_log $work/nginx.log;
events { worker_connections 64; }
http { access_log off; gzip on; gzip_types *; gzip_comp_level 9; gzip_min_length 1; server { listen 127.0.0.1:8089; root $work/www; } }
CONF
    chmod 755 "$work"
    limit server "$2"
    in_group server nginx -c "$work/nginx.conf" &
    sleep 2
    in_group_recorded client wrk -t 1 -c 8 -d 4s --latency -H 'Accept-Encoding: gzip' http://127.0.0.1:8089/index.html > "$out/$1.out" 2>&1 &
    local client=$!
    record "$1" 6
    wait $client
    kill "$(cat "$work/nginx.pid")"
    sleep 0.5
}
redis() {
    have redis-server redis-benchmark || return 0
    limit server "$2"
    in_group server redis-server --port 6399 --bind 127.0.0.1 --save '' --appendonly no --io-threads 1 > /dev/null &
    sleep 2
    in_group_recorded client nice -n "$3" redis-benchmark -p 6399 -c 10 -n 100000 -t get -q > "$out/$1.out" 2>&1 &
    local client=$!
    record "$1" 7
    wait $client
    redis-cli -p 6399 shutdown nosave 2> /dev/null || true
    sleep 0.5
}
bursts() {
    have gcc || return 0
    [ -x "$work/bursts-bin" ] || gcc -O2 -o "$work/bursts-bin" "$here/bursts.c" -lpthread -lm
    limit server "$2" "${3:-0}"
    in_group_recorded server "$work/bursts-bin" "${5:-4}" 6 10 "${4:-200}" 4 ${6:-} > "$out/$1.out" 2>&1 &
    record "$1" 8
    wait $!
}

for workload; do
    begin
    case $workload in
        build) build build 150000; build build-100 100000 ;;
        hackbench) hackbench_ hackbench 0; hackbench_ hackbench-nice -5 ;;
        web) web web 20000 2; web web-40 40000 2 ;;
        redis) redis redis 60000 0; redis redis-30 30000 0 ;;
        workers) bursts workers 30000; bursts workers-2 30000 0 200 2 ;;
        bursts) bursts bursts 30000; bursts bursts-60 60000; bursts bursts-burst 30000 30000; bursts bursts-load 30000 0 133; bursts bursts-clock 30000 0 200 4 clock ;;
        *) echo "unknown: $workload" >&2; exit 2 ;;
    esac
    end
done
