#!/bin/busybox sh
# The first process of the virtual machine of record.sh: plays each workload and writes its trace, packed, to the second serial line.
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ TERM=dumb
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t debugfs debug /sys/kernel/debug
mount -t tracefs trace /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# The speaker's silent voice keeps a timer alive that bounds the turns of two virtual CPUs.
[ "$(nproc)" = 1 ] || printf '\003' | dd of=/dev/port bs=1 seek=97 conv=notrunc 2>/dev/null
stty -F /dev/ttyS1 raw 2>/dev/null
echo "== $(uname -sr), $(nproc) CPU, preempt: $(cat /sys/kernel/debug/sched/preempt 2>/dev/null)"
echo "== features: $(cat /sys/kernel/debug/sched/features)"
for file in base_slice_ns latency_ns min_granularity_ns wakeup_granularity_ns migration_cost_ns; do
    [ -r /sys/kernel/debug/sched/$file ] && echo "== $file $(cat /sys/kernel/debug/sched/$file)"
done
t=/sys/kernel/tracing
echo mono > $t/trace_clock
echo 20000 > $t/buffer_size_kb
for event in sched_switch sched_waking sched_wakeup_new sched_migrate_task sched_process_fork sched_pi_setprio; do echo 1 > $t/events/sched/$event/enable; done
cd /cases
for plan in *.play; do
    name=${plan%.play}
    for take in $(seq "$(cat /takes)"); do
        sh $name.make > /tmp/make 2>&1
        echo > $t/trace
        echo 1 > $t/tracing_on
        play $plan > /tmp/out 2>&1; code=$?
        echo 0 > $t/tracing_on
        for group in $(find /sys/fs/cgroup -mindepth 2 -name cpu.stat); do echo "== $name $group $(grep -E 'nr_|throttled' $group | tr '\n' ' ')"; done > /tmp/stat
        sh $name.remove >> /tmp/make 2>&1
        lost=$(cat $t/per_cpu/cpu*/stats | grep -E '^overrun' | tr '\n' ' ')
        echo "== case $name, take $take: code $code, $(cat /tmp/out | tr '\n' ' '), $lost $(cat /tmp/make | tr '\n' ' ')"
        cat /tmp/stat
        { echo "begin $name.$take $(sed -n 's/^origin //p' /tmp/out)"; gzip -c $t/trace | base64; echo "end $name.$take"; } > /dev/ttyS1
    done
done
echo "== done"
poweroff -f
