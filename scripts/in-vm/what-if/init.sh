#!/bin/busybox sh
# The first process of the virtual machine of what-if-vm.sh: runs each take of /takes and writes its files, packed, to the second serial line.
/bin/busybox mkdir -p /proc /sys /dev /tmp /run
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/usr/sbin HOME=/tmp TERM=dumb LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tracefs trace /sys/kernel/tracing
mount -t debugfs debug /sys/kernel/debug
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ifconfig lo 127.0.0.1 up
chmod 1777 /tmp /dev/shm
stty -F /dev/ttyS1 raw -echo 2> /dev/null
# The voice bounds the turns of two virtual CPUs, and what-if-vm.sh takes the pause out of the loop of idle ones: record/init.sh, what-if-vm.sh.
if [ "$(nproc)" != 1 ]; then
    printf '\003' | dd of=/dev/port bs=1 seek=97 conv=notrunc 2> /dev/null
    echo "== idle loop at $(grep -E ' cpu_idle_poll(\.[a-z0-9.]*)?$' /proc/kallsyms | cut -d' ' -f1 | head -1)"
    read -r answer < /dev/ttyS0
    echo "== idle loop: $answer"
fi
cg=/sys/fs/cgroup
echo "== $(uname -sr), $(nproc) CPU, preempt: $(cat /sys/kernel/debug/sched/preempt 2> /dev/null)"
echo +cpu > $cg/cgroup.subtree_control
. /programs.sh

# in_group GROUP COMMAND...
in_group() {
    local group=$1
    shift
    sh -c 'echo $$ > "$0/cgroup.procs"; exec "$@"' $cg/zl/$group "$@"
}
# When the recorders record, a line from the pipe /tmp/go says so.
in_group_recorded() {
    local group=$1
    shift
    sh -c 'echo $$ > "$0/cgroup.procs"; read -r go < /tmp/go; exec "$@"' $cg/zl/$group "$@"
}
# What the recipe of the recorder runs in place of `sleep`: the work, from its start to its end, or until the window of an open client is over.
cat > /bin/meanwhile <<'MEANWHILE'
#!/bin/sh
# Without programs: those would be part of the recording.
stats() { for group in server client; do while read -r line; do echo "$group $line"; done < /sys/fs/cgroup/zl/$group/cpu.stat; done; echo "at $(client now)"; }
sleep 0.1
stats > /tmp/take/stat.before
echo go > /tmp/go
read -r -t 60 ended < /tmp/ended || echo late > /tmp/take/late
stats > /tmp/take/stat.after
sleep 0.1
MEANWHILE
chmod +x /bin/meanwhile

# take PROGRAM CHANGE NUMBER QUOTA PERIOD BURST WORKERS IS_RECORDING
take() {
    program=$1 workers=$7 seed=$((100 * $3 + $(nproc)))
    local group name=$1.$2.$3
    rm -rf /tmp/take /tmp/go /tmp/ended /tmp/data
    mkdir -p /tmp/take /tmp/data $cg/zl
    mkfifo /tmp/go /tmp/ended
    echo +cpu > $cg/zl/cgroup.subtree_control
    mkdir $cg/zl/server $cg/zl/client
    [ "$workers" != - ] || workers=
    # The server starts without a limit, and is ready when its function returns.
    ready=1
    server_$program
    ( work_$program > /tmp/take/out 2> /tmp/take/errors; echo "code $?" >> /tmp/take/out; echo ended > /tmp/ended ) &
    sleep $ready
    echo "$4 $5" > $cg/zl/server/cpu.max
    echo "$6" > $cg/zl/server/cpu.max.burst
    sleep 0.3
    sed 's/sleep [0-9]*;/meanwhile;/' /recipe > /tmp/take/recipe
    [ "$8" = yes ] || sed -i '/cat trace;/d' /tmp/take/recipe
    (cd /tmp/take && sh -e recipe > log 2>&1) || echo "FAILED: the recipe, $name: $(tail -3 /tmp/take/log | tr '\n' ' ')"
    for group in server client; do echo 1 > $cg/zl/$group/cgroup.kill; done
    wait
    n=0
    while grep -q 'populated 1' $cg/zl/cgroup.events && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done
    after_$program >> /tmp/take/out 2>&1
    rmdir $cg/zl/server $cg/zl/client $cg/zl
    # Without its counters a take is run again.
    grep -q '^code 0$' /tmp/take/out || { echo "FAILED: $name: $(tail -3 /tmp/take/out /tmp/take/errors /tmp/data/log 2> /dev/null | tr '\n' ' ')"; rm -f /tmp/take/stat.after; }
    echo "== $name: $(head -c 200 /tmp/take/out | tr '\n' ' ')$(grep -c ^ /tmp/take/trace.txt 2> /dev/null) $(grep overrun /tmp/take/log) free $(sed -n 's/^MemFree: *//p' /proc/meminfo)"
    mv /tmp/take /tmp/$name
    tar -C /tmp -cf - $name | zstd -q -1 -c | cat > /dev/ttyS1
    rm -rf /tmp/${name:?}
}
while read -r line; do take $line < /dev/null; done < /takes
echo "== done"
sleep 1
poweroff -f
