#!/usr/bin/env bash
# Measures cyclictest beside a load that works in the kernel, under each preemption model, in a virtual machine.
#
#   scripts/in-vm/latency.sh STOCK_IMAGE RT_IMAGE [SECONDS]
#
# The images are those of one kernel version with and without PREEMPT_RT; `preempt=` chooses the model of the first (PREEMPT_DYNAMIC). The machine has
# one CPU and runs in virtual time (QEMU's TCG with -icount, 4 ns per instruction), so figures compare with each other, not with hardware: caches,
# idle states and other CPUs cost nothing there. Prints two rows per model, as timerlat does: how late the timer's interrupt is (two traced events, which
# every kernel has), and how late cyclictest is. Needs cyclictest, hackbench and stress-ng; skips without them.
# Results: docs/lab/preempt-rt.md.
set -euo pipefail
stock=${1:?image of the stock kernel}
rt=${2:?image of the kernel with PREEMPT_RT}
seconds=${3:-20}

skip() { echo "skipped: $*" >&2; exit 0; }
for tool in qemu-system-x86_64 cpio busybox cyclictest hackbench stress-ng; do
    command -v "$tool" >/dev/null || skip "no $tool"
done

root=$(mktemp -d)
trap 'rm -rf "$root" "$root.gz"' EXIT
mkdir -p "$root"/{bin,dev,proc,sys,tmp}
for tool in busybox cyclictest hackbench stress-ng; do
    binary=$(command -v "$tool")
    cp -L "$binary" "$root/bin/$tool"
    # A static program has no libraries, which ldd calls an error.
    { ldd "$binary" || true; } 2>/dev/null | { grep -o '/[^ ]*' || true; } | sort -u | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
done
cat > "$root/init" <<END
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev; /bin/busybox mount -t proc proc /proc; /bin/busybox mount -t sysfs sys /sys
/bin/busybox mkdir -p /dev/shm; /bin/busybox mount -t tmpfs tmp /tmp; cd /tmp; export PATH=/bin HOME=/tmp; /bin/busybox --install -s /bin
uname -srv; cat /proc/cmdline
mount -t tracefs trace /sys/kernel/tracing; t=/sys/kernel/tracing
echo $((seconds * 500 + 2000)) > \$t/buffer_size_kb
wakeup=0x\$(grep ' hrtimer_wakeup\$' /proc/kallsyms | cut -d' ' -f1)
for event in hrtimer_start hrtimer_expire_entry; do
    echo "function == \$wakeup" > \$t/events/timer/\$event/filter
    echo 1 > \$t/events/timer/\$event/enable
done
sh /load.sh
sleep 2
echo BEGIN
cyclictest -q -m -p 95 -t 1 -i 1000 -h 20000 -D $seconds
echo 0 > \$t/tracing_on
killall -q -9 hackbench stress-ng
echo INTERRUPTS
awk '{ for (i = 1; i <= NF; i++) { n = index(\$i, "="); if (n) field[substr(\$i, 1, n - 1)] = substr(\$i, n + 1) } }
    # Timers of the main thread have a slack, those of real-time threads have none.
    /cyclictest.*hrtimer_start:/ && field["expires"] == field["softexpires"] { due[field["hrtimer"]] = field["expires"] }
    /hrtimer_expire_entry:/ { if (field["hrtimer"] in due) { print int((field["now"] - due[field["hrtimer"]]) / 100); delete due[field["hrtimer"]] } }' \$t/trace |
    sort -n | uniq -c
cat \$t/per_cpu/cpu0/stats | grep overrun
echo END
poweroff -f
END
chmod +x "$root/init"
cp "$(dirname "${BASH_SOURCE[0]}")/load.sh" "$root/load.sh"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$root.gz"

printf '%-10s %-10s %8s %8s %8s %8s %8s\n' model figure samples p50 p99 p99.9 max
for model in ${MODELS:-none voluntary full rt}; do
    image=$stock option=preempt=$model
    [ "$model" != rt ] || { image=$rt; option=; }
    append="console=ttyS0 quiet panic=-1 mitigations=off nokaslr nowatchdog cryptomgr.notests=1 audit=0 tsc=reliable clocksource=tsc no-kvmclock tsc_early_khz=1000000 $option"
    timeout "${LIMIT:-900}" qemu-system-x86_64 -nodefaults -display none -no-reboot -serial stdio -m 1G -machine q35 -accel tcg,thread=single \
        -cpu max -smp 1 -icount shift=2,sleep=off -rtc clock=vm,base=2026-01-01 -kernel "$image" -initrd "$root.gz" -append "$append" \
        </dev/null 2>&1 | stdbuf -oL tr -d '\r' | tee "${LOG:-/dev/null}" | awk -v model="$model" '
            /^BEGIN/ { inside = "thread" }
            /^INTERRUPTS/ { inside = "irq" }
            # Lines of cyclictest: microseconds, count; of the interrupts: count, tenths of a microsecond.
            inside == "thread" && /^[0-9]+ [0-9]+/ { add("thread", $1 + 0, $2 + 0) }
            inside == "irq" && /^ *[0-9]+ [0-9]+/ { add("irq", $2 / 10, $1 + 0) }
            /^# Max Latencies:/ { if ($4 + 0 > max["thread"]) max["thread"] = $4 + 0 }
            function add(of, us, count) { at[of, n[of]] = us; counts[of, n[of]++] = count; total[of] += count; if (count > 0 && us > max[of]) max[of] = us }
            function quantile(of, q,   sum, i) { for (i = 0; i < n[of]; i++) { sum += counts[of, i]; if (sum >= q * total[of]) return at[of, i] } return max[of] }
            function row(of) {
                if (total[of] == 0) { print model ": no figures of " of > "/dev/stderr"; return }
                printf "%-10s %-10s %8d %8.1f %8.1f %8.1f %8.1f\n", model, of, total[of], quantile(of, 0.5), quantile(of, 0.99), quantile(of, 0.999), max[of]
            }
            END { row("irq"); row("thread")
        }'
done
