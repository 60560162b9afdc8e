#!/usr/bin/env bash
# Measures cyclictest beside a load that works in the kernel, under each preemption model, in a virtual machine.
#
#   scripts/in-vm/latency.sh STOCK_IMAGE RT_IMAGE [SECONDS]
#
# The images are those of one kernel version with and without PREEMPT_RT; `preempt=` chooses the model of the first (PREEMPT_DYNAMIC). The machine has
# one CPU and runs in virtual time (QEMU's TCG with -icount, 4 ns per instruction), so figures compare with each other, not with hardware: caches,
# idle states and other CPUs cost nothing there. Prints a row per model. Needs cyclictest, hackbench and stress-ng; skips without them.
# Results: docs/lab/2026-11-24-preempt-rt.md.
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
/bin/busybox mount -t tmpfs tmp /tmp; cd /tmp; export PATH=/bin HOME=/tmp; /bin/busybox --install -s /bin
ip link set lo up
uname -srv; cat /proc/cmdline
hackbench -g 1 -f 4 -l 100000000 > /dev/null 2>&1 &
stress-ng --udp 1 --fork 1 --pipe 1 --temp-path /tmp > /dev/null 2>&1 &
while :; do find /proc /sys -maxdepth 4 > /dev/null 2>&1; dd if=/dev/zero of=/tmp/f bs=4M count=8 2> /dev/null; rm /tmp/f; done &
sleep 2
echo BEGIN
cyclictest -q -m -p 95 -t 1 -i 1000 -h 20000 -D $seconds
echo END
poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$root.gz"

printf '%-10s %8s %8s %8s %8s %8s\n' model samples p50 p99 p99.9 max
for model in none voluntary full rt; do
    image=$stock option=preempt=$model
    [ "$model" != rt ] || { image=$rt; option=; }
    append="console=ttyS0 quiet panic=-1 mitigations=off nokaslr nowatchdog cryptomgr.notests=1 audit=0 tsc=reliable clocksource=tsc no-kvmclock tsc_early_khz=1000000 $option"
    timeout "${LIMIT:-900}" qemu-system-x86_64 -nodefaults -display none -no-reboot -serial stdio -m 1G -machine q35 -accel tcg,thread=single \
        -cpu max -smp 1 -icount shift=2,sleep=off -rtc clock=vm,base=2026-01-01 -kernel "$image" -initrd "$root.gz" -append "$append" \
        </dev/null 2>&1 | tr -d '\r' | tee "${LOG:-/dev/null}" | awk -v model="$model" '
            /^BEGIN/ { inside = 1 }
            inside && /^[0-9]+ [0-9]+/ { at[n] = $1 + 0; of[n++] = $2 + 0; total += $2; if ($2 > 0) max = $1 + 0 }
            /^# Max Latencies:/ { if ($4 + 0 > max) max = $4 + 0 }
            function quantile(q,   sum, i) { for (i = 0; i < n; i++) { sum += of[i]; if (sum >= q * total) return at[i] } return max }
            END {
                if (total == 0) { print model ": no figures" > "/dev/stderr"; exit 1 }
                printf "%-10s %8d %8d %8d %8d %8d\n", model, total, quantile(0.5), quantile(0.99), quantile(0.999), max
            }'
done
