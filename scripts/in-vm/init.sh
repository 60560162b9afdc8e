#!/bin/busybox sh
# The first process of the virtual machine of run.sh: tries the groups of the Linux host on cgroup v2, one line `ok` or `FAILED` each.
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ TERM=dumb
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for word in $(cat /proc/cmdline); do case $word in part=*) part=${word#part=} ;; esac; done
# The voice of record/init.sh, which bounds the turns of two virtual CPUs.
[ "$(nproc)" = 1 ] || printf '\003' | dd of=/dev/port bs=1 seek=97 conv=notrunc 2>/dev/null
cg=/sys/fs/cgroup
echo "== $(uname -sr), $(nproc) CPU, cgroup v2: $(cat $cg/cgroup.controllers)"
cd /

ok() { echo "ok: $*"; }
failed() { echo "FAILED: $*"; }
# is WHAT FOUND WANTED
is() { if [ "$2" = "$3" ]; then ok "$1: $2"; else failed "$1: $2, not $3"; fi; }
# within WHAT FOUND LOW HIGH, whole numbers
within() { if [ -n "$2" ] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ]; then ok "$1: $2"; else failed "$1: $2, not $3 to $4"; fi; }
# The cleaner tries for five seconds.
gone() {
    n=0
    while [ $n -lt 60 ]; do
        left=$(ls -d $cg/zerolag-* $cg/*/zerolag-* 2>/dev/null | head -1)
        [ -z "$left" ] && { ok "$1: no group is left"; return; }
        n=$((n + 1)); sleep 0.1
    done
    failed "$1: $left is still there"
}

groups() {
    echo "== without the controller"
    zerolag run groups.toml --on linux -d 1s > /tmp/out 2>&1; code=$?
    is "exit code" $code 1
    grep -q "echo +cpu >" /tmp/out && ok "it says what to do" || { failed "it does not say what to do"; cat /tmp/out; }

    echo "== from the root group"
    echo +cpu > $cg/cgroup.subtree_control
    run_groups root

    echo "== from a group of a session, below a parent that grants the controller"
    mkdir $cg/session
    echo $$ > $cg/session/cgroup.procs
    run_groups session
    is "the shell is where it was" "$(sed -n 's/^0:://p' /proc/self/cgroup)" /session
    grep -qx $$ $cg/session/cgroup.procs && ok "and nobody moved it" || failed "the session has lost the shell"
    echo $$ > $cg/cgroup.procs
    rmdir $cg/session
}

# Starts a run of the given seconds; returns when its groups exist, after calibration.
start_groups() {
    zerolag run groups.toml --on linux -d $1 > /tmp/out 2>&1 &
    pid=$!
    n=0
    while [ ! -e $cg/zerolag-$pid-0/pod/b/cpu.weight ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
}

run_groups() {
    start_groups 4s
    sleep 1.5
    own=$cg/zerolag-$pid-0
    is "$1: cpu.max of /limited" "$(cat $own/limited/cpu.max)" "20000 100000"
    is "$1: cpu.max.burst of /limited" "$(cat $own/limited/cpu.max.burst)" 10000
    is "$1: cpu.weight of /pod/b" "$(cat $own/pod/b/cpu.weight)" 300
    is "$1: cpu.weight.nice of /niced" "$(cat $own/niced/cpu.weight.nice)" 5
    is "$1: cpu.idle of /idle" "$(cat $own/idle/cpu.idle)" 1
    is "$1: type of the run's own group" "$(cat $own/cgroup.type)" "domain threaded"
    is "$1: type of /pod/a" "$(cat $own/pod/a/cgroup.type)" threaded
    is "$1: threads of /pod/a" "$(cat $own/pod/a/cgroup.threads | wc -l)" 2
    is "$1: threads of /pod" "$(cat $own/pod/cgroup.threads | wc -l)" 0
    is "$1: process" "$(cat $own/cgroup.procs)" $pid
    wait $pid; code=$?
    cat /tmp/out
    is "$1: exit code" $code 0
    gone "$1: after the end"

    start_groups 20s
    sleep 0.5
    is "$1: threads before the kill" "$(cat $cg/zerolag-$pid-0/pod/a/cgroup.threads | wc -l)" 2
    kill -KILL $pid; wait $pid
    gone "$1: after a kill"

    start_groups 20s
    sleep 0.5
    kill -INT $pid; wait $pid; code=$?
    is "$1: exit code of a run that was interrupted" $code 130
    grep "^interrupted" /tmp/out || failed "it does not say that it was interrupted"
    gone "$1: after an interrupt"

    zerolag run lives.toml --on linux > /tmp/out 2>&1; code=$?
    cat /tmp/out
    is "$1: exit code of groups that come and go" $code 0
    gone "$1: groups that come and go"
}

validate() {
    echo "== validate --live"
    grep -q cpu $cg/cgroup.subtree_control || echo +cpu > $cg/cgroup.subtree_control
    # shellcheck disable=SC2046
    zerolag validate --live --quiet $(cat arguments); code=$?
    echo "exit code $code"
}

# Prints the profile between two lines, for a file of conformance/.
calibrate() {
    # Recordings are made with these events traced (record/init.sh), and tracing takes time.
    mount -t tracefs trace /sys/kernel/tracing
    t=/sys/kernel/tracing
    echo mono > $t/trace_clock
    echo 2000 > $t/buffer_size_kb
    for event in sched_switch sched_waking sched_wakeup_new sched_migrate_task sched_process_fork sched_pi_setprio; do echo 1 > $t/events/sched/$event/enable; done
    echo 1 > $t/tracing_on
    # Groups are measured too.
    echo +cpu > /sys/fs/cgroup/cgroup.subtree_control
    echo "== calibrate"
    zerolag calibrate --events $t /tmp/profile.toml; code=$?
    echo "== profile"
    cat /tmp/profile.toml
    echo "== exit code $code"
}

# Brings a file of /tmp/out to the second serial line.
send() { { echo "begin $1"; gzip -c /tmp/out/$1 | base64; echo end; } > /dev/ttyS1; }

# From now on this shell and its programs come before the load and after the tracers' threads, and as before. chrt is part of util-linux.
before_load() { chrt -f -p 1 $$ > /dev/null; }
as_before() { chrt -o -p 0 $$ > /dev/null; }

# One run of the kernel's tracer: a line `CPU COUNT irq|thread NANOSECONDS` per sample.
tracer() {
    echo > $t/trace
    echo 1 > $t/tracing_on
    echo timerlat > $t/current_tracer
    sleep $seconds
    echo 0 > $t/tracing_on
    before_load
    sed -n 's/^.*\[0*\([0-9][0-9]*\)\].*#\([0-9]*\) *context *\([a-z]*\) timer_latency *\([0-9]*\) ns.*$/\1 \2 \3 \4/p' $t/trace > /tmp/out/host.$1.txt
    echo nop > $t/current_tracer
    send host.$1.txt
    as_before
    echo "== timerlat $1: $(wc -l < /tmp/out/host.$1.txt) samples, lost: $(cat $t/per_cpu/cpu*/stats | sed -n 's/^overrun: //p' | tr '\n' ' ')"
}

# Mounts tracefs, looks for the tracer $1 and brings the machine's words out: seconds and load are those of the part.
tracefs() {
    mount -t tracefs trace /sys/kernel/tracing
    mount -t debugfs debug /sys/kernel/debug
    t=/sys/kernel/tracing
    grep -qw "$1" $t/available_tracers || { failed "no tracer $1: $(cat $t/available_tracers)"; return 1; }
    mkdir -p /tmp/out
    model=$(sed -n 's/.*(\([a-z]*\)).*/\1/p' /sys/kernel/debug/sched/preempt 2>/dev/null)
    [ "$(cat /sys/kernel/realtime 2>/dev/null)" = 1 ] && model=rt
    echo "release=$(uname -r) cpus=$(nproc) seconds=$seconds load=$load preempt=$model clock=$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)" > /tmp/out/machine
    echo "== $part: $(cat /tmp/out/machine), models $(cat /sys/kernel/debug/sched/preempt 2>/dev/null)"
    stty -F /dev/ttyS1 raw 2>/dev/null
    send machine
}

# Starts the load.
start_load() {
    if [ $load = hogs ]; then
        cpu=0
        while [ $cpu -lt $(nproc) ]; do
            taskset -c $cpu sh -c 'while :; do :; done' &
            cpu=$((cpu + 1))
        done
    elif [ $load = kernel ]; then
        (cd /tmp && sh /load.sh)
    fi
    sleep 2
}

# The tracer and calibrations in turns; the tracer comes first and last. `arguments`: seconds, calibrations, load.
timerlat() {
    read -r seconds calibrations load < arguments
    seconds=${seconds:-60} calibrations=${calibrations:-3} load=${load:-none}
    tracefs timerlat || return
    echo 1000 > $t/osnoise/timerlat_period_us
    # The samples of a run stay in memory until its end: reading them meanwhile would wake CPUs.
    echo $((seconds * 150 + 1000)) > $t/buffer_size_kb
    start_load
    tracer 0
    n=1
    while [ $n -le $calibrations ]; do
        zerolag calibrate /tmp/out/profile.$n.toml --noise > /tmp/out/calibrate.$n.txt 2>&1; code=$?
        is "calibration $n" $code 0
        cat /tmp/out/calibrate.$n.txt
        send profile.$n.toml
        tracer $n
        n=$((n + 1))
    done
}

# One run of osnoise into the file $1, with threads of SCHED_OTHER ($2 is `other`) or of SCHED_FIFO with priority $2, which take no turns with the load:
# nothing but this shell comes before them. A line per second and CPU: CPU, busy time, noise, available, longest gap, and counts: hardware, NMIs,
# interrupts, softirqs, threads.
noise() {
    echo 1000000 > $t/osnoise/period_us
    echo 1000000 > $t/osnoise/runtime_us
    # As rtla: a gap of 1 us is noise.
    echo 1 > $t/tracing_thresh
    chrt -f -p 99 $$ > /dev/null
    servers=$(ls /sys/kernel/debug/sched/fair_server/cpu*/runtime 2> /dev/null)
    if [ $2 != other ]; then
        echo -1 > /proc/sys/kernel/sched_rt_runtime_us
        for server in $servers; do echo 0 > $server; done
    fi
    echo > $t/trace
    echo 1 > $t/tracing_on
    echo osnoise > $t/current_tracer
    if [ $2 != other ]; then
        for comm in $(grep -l '^osnoise/' /proc/[0-9]*/comm); do chrt -f -p $2 $(echo $comm | cut -d/ -f3) > /dev/null; done
    fi
    sleep $((seconds + 1))
    echo 0 > $t/tracing_on
    sed -n 's/^ *[^ ]* *\[0*\([0-9][0-9]*\)\].*: \([0-9][0-9]* .*\)$/\1 \2/p' $t/trace > /tmp/out/$1
    echo nop > $t/current_tracer
    echo 0 > $t/tracing_thresh
    if [ $2 != other ]; then
        for server in $servers; do echo 50000000 > $server; done
        echo 950000 > /proc/sys/kernel/sched_rt_runtime_us
    fi
    before_load
    send $1
    echo "== osnoise: $1"
    cat /tmp/out/$1
}

# timerlat without and with the load of load.sh, then osnoise with it, in one boot: models.sh. `arguments`: seconds.
models() {
    read -r seconds < arguments
    seconds=${seconds:-10}
    tracefs timerlat || return
    echo 1000 > $t/osnoise/timerlat_period_us
    echo $((seconds * 300 + 1000)) > $t/buffer_size_kb
    for load in none kernel; do
        start_load
        tracer $load
    done
    noise osnoise.$load.other.txt other
    noise osnoise.$load.95.txt 95
}

# Cumulated run time and turns of the kernel's threads into the file $1: number, name, nanoseconds, turns.
thread_times() {
    for process in /proc/[0-9]*; do
        # The flag PF_KTHREAD, after the name, which can have spaces.
        flags=$(sed 's/^.*) //' $process/stat 2> /dev/null | cut -d' ' -f7)
        [ -n "$flags" ] && [ $((flags & 0x200000)) != 0 ] && echo "${process#/proc/} $(tr ' ' _ < $process/comm) $(cut -d' ' -f1,3 $process/schedstat)"
    done > /tmp/out/$1
}

# When the kernel's own threads run: threads.py. `arguments`: seconds, load.
threads() {
    read -r seconds load < arguments
    seconds=${seconds:-60} load=${load:-none}
    tracefs nop || return
    echo 40000 > $t/buffer_size_kb
    filter=
    for name in 'kworker*' 'ksoftirqd*' 'rcu*' 'ktimers*' 'migration*' 'kswapd*' 'kcompactd*' 'khugepaged' 'ksmd' 'kdamond*' 'kthreadd' 'khungtaskd' 'oom_reaper' 'irq/*' 'cpuhp*'; do
        filter="$filter${filter:+ || }prev_comm ~ \"$name\" || next_comm ~ \"$name\""
    done
    echo "$filter" > $t/events/sched/sched_switch/filter || { failed "the filter of sched_switch"; return; }
    echo 1 > $t/events/sched/sched_switch/enable
    start_load
    before_load
    thread_times before.txt
    echo > $t/trace
    echo 1 > $t/tracing_on
    sleep $seconds
    echo 0 > $t/tracing_on
    thread_times after.txt
    killall -9 hackbench stress-ng 2> /dev/null
    # CPU, seconds, thread before, its state, thread after.
    sed -n 's/^.*\[0*\([0-9][0-9]*\)\] [^ ]* *\([0-9.]*\): sched_switch: prev_comm=\(.*\) prev_pid=\([0-9]*\) .*prev_state=\([^ ]*\) ==> next_comm=\(.*\) next_pid=\([0-9]*\) .*$/\1 \2 \4 \5 \7 \3 \6/p' $t/trace > /tmp/out/switches.txt
    for file in before.txt after.txt switches.txt; do send $file; done
    echo "== threads: $(wc -l < /tmp/out/switches.txt) switches, lost: $(cat $t/per_cpu/cpu*/stats | sed -n 's/^overrun: //p' | tr '\n' ' ')"
}

# Where the kernel was when timerlat's timer came, for activations whose thread was later than `us`. `arguments`: seconds, load, us.
stacks() {
    read -r seconds load us < arguments
    seconds=${seconds:-10} load=${load:-kernel} us=${us:-100}
    tracefs timerlat || return
    echo 1000 > $t/osnoise/timerlat_period_us
    echo $us > $t/osnoise/print_stack
    echo 40000 > $t/buffer_size_kb
    start_load
    before_load
    echo > $t/trace
    echo 1 > $t/tracing_on
    echo timerlat > $t/current_tracer
    sleep $seconds
    echo 0 > $t/tracing_on
    # Latencies from 10 us on, and the stacks.
    grep -e '^ *=>' -e 'stack trace' -e 'timer_latency *[0-9]\{5,\} ns' $t/trace > /tmp/out/stacks.txt
    echo nop > $t/current_tracer
    send stacks.txt
}

# Loads a policy and waits until it schedules; what it prints is in /tmp/scx.
load() {
    zerolag-scx run -q "$@" > /tmp/scx 2>&1 &
    pid=$!
    until_enabled "$*"
}

until_enabled() {
    n=0
    while ! grep -q enabled /sys/kernel/sched_ext/state && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
    is "$1" "$(cat /sys/kernel/sched_ext/state)" enabled
}

# unloaded WHAT CODE: the program ends with this exit code, and the machine is under its own scheduler.
unloaded() {
    wait $pid; code=$?
    is "$1: exit code" $code "$2"
    is "$1: the machine is under its own scheduler" "$(cat /sys/kernel/sched_ext/state)" disabled
    cat /tmp/scx
}

# Ctrl-C.
unload() { kill -INT $pid; unloaded "$1" 0; }

# A task gets so much of the CPU, in tenths of a percent: of the output of `zerolag run`.
share() { awk -v task="$2" '$1 == task && $5 ~ /%/ { sub("%", "", $5); print int($5 * 10 + 0.5); exit }' $1; }

# The median wait of the sleeper after a wakeup, in microseconds: of the output of `zerolag run`.
median() {
    awk '/wakeup to run/ { on = 1 } on && $1 == "sleeper-0" { t = $7; m = t ~ /ns$/ ? 0.001 : t ~ /us$/ ? 1 : t ~ /ms$/ ? 1000 : 1000000; print int((t + 0) * m); exit }' /tmp/run
}

# shares POLICY THOUSANDTHS: those of the loaded policy and of the simulator's, within so much: computations of 2 ms take 2.3 ms in this machine, under
# any scheduler. Two emulated CPUs take turns, so there both are printed only.
shares() {
    sed "s/cpus = 1/cpus = $(nproc)/" scx.toml > /tmp/scx.toml
    zerolag run /tmp/scx.toml --policy $1 -d ${seconds}s > /tmp/sim 2>&1
    zerolag run /tmp/scx.toml --on linux -d ${seconds}s > /tmp/run 2>&1
    for task in heavy middle light sleeper; do
        simulated=$(share /tmp/sim $task-0)
        found=$(share /tmp/run $task-0)
        if [ "$(nproc)" = 1 ]; then
            within "$1: thousandths for $task, simulated $simulated" "$found" $((simulated - $2)) $((simulated + $2))
        else
            echo "$1: thousandths for $task: $found, simulated $simulated"
        fi
    done
    grep -A5 -e '^run time' -e '^wait and' /tmp/run
}

# Microseconds of the machine for each message of two processes that wake each other.
pipe() { perf bench sched pipe -l 3000 2>&1 | awk -v what="$1" '/usecs/ { print "pipe, " what ": " $1 " us" }'; }

# Seconds in which 40 tasks send each other messages.
messages() { perf bench sched messaging -g 1 -l 20 2>&1 | awk -v what="$1" '/Total time/ { print "messages, " what ": " $3 " s" }'; }

# Threads that rules name: one of real time, which has no wait, and one with 30 ms of 100 ms, which gets that and no more. Both have their names after
# their creation. `arguments`: seconds.
rules() {
    read -r seconds < arguments
    seconds=${seconds:-10}
    echo "== linux, with rules"
    grep -q scx_bpf_dsq_reenq /proc/kallsyms && most=500 || most=4500
    load --policy linux --set "rules=comm sleeper-* fifo 50; comm light-* deadline 30ms 100ms"
    zerolag run scx.toml --on linux -d ${seconds}s > /tmp/run 2>&1
    grep -A5 -e '^run time' -e '^wait and' /tmp/run
    within "rules: microseconds that the sleeper waits, median" "$(median)" 0 $most
    [ "$(nproc)" != 1 ] || within "rules: thousandths for light" "$(share /tmp/run light-0)" 285 315
    unload "linux, with rules"
    grep -q "sleeper-0\[" /tmp/scx && ok "the table has the thread's own name" || failed "the table has another name"
}

# Policies in a running kernel. `arguments`: seconds.
scx() {
    read -r seconds < arguments
    seconds=${seconds:-10}
    [ -d /sys/kernel/sched_ext ] || { failed "this kernel has no sched_ext"; return; }

    # Which loop the sleeper preempts, which costs that one the rest of its turn, depends on phases.
    for policy in vtime:25 fifo:25 /vtime.so:25 /wake-first.so:50; do
        bound=${policy#*:}
        policy=${policy%:*}
        echo "== $policy"
        load --policy $policy
        shares $policy $bound
        # A wakeup preempts under this policy, in kernels before 7.1 at the next tick.
        grep -q scx_bpf_dsq_reenq /proc/kallsyms && most=500 || most=4500
        [ $policy != /wake-first.so ] || within "$policy: microseconds that the sleeper waits, median" "$(median)" 0 $most
        unload $policy
    done
    load --policy vtime --ask-always
    shares vtime 25
    unload "vtime, asked always"
    load --policy vtime --patient
    shares vtime 25
    unload "vtime, patient"
    load --policy vtime --patient --alone
    shares vtime 25
    unload "vtime, patient, alone"

    rules

    echo "== parameters, groups, partial, a time limit"
    echo +cpu > $cg/cgroup.subtree_control
    mkdir $cg/builds
    sh -c 'echo 0 > $0/cgroup.procs; while :; do :; done' $cg/builds & loop=$!
    load --policy vtime --set saved=0 --groups --for 2s
    unloaded "2 s" 0
    grep -q " /builds$" /tmp/scx && ok "the group is in the table" || failed "the group is not in the table"
    load --policy vtime --partial
    is "partial: all tasks" "$(cat /sys/kernel/sched_ext/switch_all)" 0
    sleep 1
    unload "partial"
    grep -q "\[$loop\]" /tmp/scx && failed "a task that did not ask is scheduled" || ok "tasks that do not ask are left alone"

    echo "== wrong usage"
    zerolag-scx run --policy edf > /tmp/scx 2>&1; is "edf" $? 2
    zerolag-scx run --policy nosuch --slice 1us > /tmp/scx 2>&1; is "an unknown policy and a slice" $? 2
    is "mistakes" "$(grep -c '^error: ' /tmp/scx)" 2
    cat /tmp/scx
    load --policy vtime
    zerolag-scx run --policy fifo > /tmp/second 2>&1; is "a second one" $? 2
    cat /tmp/second

    echo "== kill -9"
    kill -KILL $pid
    unloaded "kill -9" 137

    echo "== a hang"
    load --policy vtime
    kill -STOP $pid
    # This shell is one of its tasks: it goes on meanwhile.
    sleep 1
    is "after a second" "$(cat /sys/kernel/sched_ext/state)" enabled
    sleep 2
    is "after three seconds" "$(cat /sys/kernel/sched_ext/state)" disabled
    kill -CONT $pid
    unloaded "a hang" 1
    grep -q "has not answered" /tmp/scx && ok "it says so" || failed "it does not say so"

    echo "== out of memory"
    echo +memory > $cg/cgroup.subtree_control
    mkdir $cg/small
    sh -c 'echo 0 > $0/cgroup.procs; exec zerolag-scx run -q --policy vtime' $cg/small > /tmp/scx 2>&1 & pid=$!
    until_enabled "in a group"
    echo 1M > $cg/small/memory.max
    unloaded "killed for its memory" 137

    for fault in FORGETS LOOPS FORBIDDEN; do
        echo "== a policy that is wrong: $fault"
        zerolag-scx run -q --policy /$fault.so > /tmp/scx 2>&1 & pid=$!
        sleep 5
        wait $pid; code=$?
        [ $code != 0 ] && ok "exit code $code" || failed "exit code 0"
        is "$fault: the machine is under its own scheduler" "$(cat /sys/kernel/sched_ext/state)" disabled
        cat /tmp/scx
    done
    kill $loop

    if [ "$(nproc)" -gt 1 ]; then
        echo "== a CPU goes offline"
        load --policy vtime
        echo 0 > /sys/devices/system/cpu/cpu1/online
        unloaded "a CPU goes offline" 1
        echo 1 > /sys/devices/system/cpu/cpu1/online
        load --policy vtime
        unload "a CPU is online again"
    fi

    if command -v perf > /dev/null; then
        echo "== what a switch costs"
        pipe "the kernel's own scheduler"
        messages "the kernel's own scheduler"
        load --policy fifo; pipe fifo; unload "pipe, fifo"
        load --policy fifo --patient; pipe "fifo, patient"; unload "pipe, fifo, patient"
        load --policy vtime; messages vtime; unload "messages, vtime"
        load --policy fifo --ask-always; pipe "fifo, asked always"; unload "pipe, fifo, asked always"
    fi
    echo "== the kernel's words"
    dmesg | grep 'sched_ext:'
}

# Each workload of policies/ under each policy: what tasks got, as files of OUT. `arguments`: policies, workloads.
policies() {
    read -r chosen only < arguments
    chosen=$(echo "${chosen:-vtime,fifo}" | tr , ' ')
    [ -d /sys/kernel/sched_ext ] || { failed "this kernel has no sched_ext"; return; }
    stty -F /dev/ttyS1 raw 2> /dev/null
    mkdir -p /tmp/out
    echo +cpu > $cg/cgroup.subtree_control
    for policy in $chosen; do
        for file in policies/*.toml; do
            name=$(basename $file .toml)
            [ -z "$only" ] || echo ",$only," | grep -q ",$name," || continue
            load --policy $policy
            zerolag run $file --on linux -q --json=/tmp/out/$policy.$name.json > /tmp/run 2>&1; code=$?
            unload "$policy, $name" > /tmp/unloaded; ! grep -q FAILED /tmp/unloaded || cat /tmp/unloaded
            case $code in 0 | 99) send $policy.$name.json ;; *) failed "$policy, $name: exit code $code"; cat /tmp/run ;; esac
        done
    done
}

# Latency of a server whose group has a quarter of the CPU, beside loops: requests done, p50, p90, p99.
limited() {
    zerolag run limited.toml --on linux > /tmp/run 2>&1
    echo "limited, $1: $(awk '$1 == "web" { print $2, $3, $4, $5; exit }' /tmp/run), $(awk '$1 == "/server" { print $4, "of the CPU,", $7, "throttled"; exit }' /tmp/run)"
}

# What switches cost: under the kernel's own scheduler, policies, and other programs.
overhead() {
    command -v perf > /dev/null || { failed "there is no perf"; return; }
    echo +cpu > $cg/cgroup.subtree_control
    costs() { pipe "$1"; pipe "$1"; messages "$1"; messages "$1"; limited "$1"; }
    costs "the kernel's own scheduler"
    for policy in vtime linux "vtime --patient" "linux --patient" "vtime --patient --alone"; do
        # shellcheck disable=SC2086
        load --policy $policy
        costs "$policy"
        unload "$policy"
    done
    for other in $(cat others); do
        # scx_lavd reads debugfs.
        mount -t debugfs debug /sys/kernel/debug 2> /dev/null
        $other > /tmp/other 2>&1 & pid=$!
        until_enabled "$other"
        costs "$other"
        kill -INT $pid
        wait $pid
        cat /sys/kernel/sched_ext/state
        tail -12 /tmp/other
    done
}

case $part in
    scx) scx ;;
    rules) rules ;;
    policies) policies ;;
    overhead) overhead ;;
    timerlat) timerlat ;;
    models) models ;;
    stacks) stacks ;;
    threads) threads ;;
    calibrate) calibrate ;;
    groups) groups ;;
    validate) validate ;;
    *) groups; validate ;;
esac
echo "== done"
poweroff -f
