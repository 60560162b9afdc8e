#!/usr/bin/env bash
# Where the threads of a process end up on a machine with two caches, with llc_balancing on and off: docs/lab/caches.md.
#
#   scripts/in-vm/caches.sh KERNEL_IMAGE [CPUS OF A CACHE: 2 or 4]
#
# KERNEL_IMAGE is a kernel since 7.2 with CONFIG_SCHED_CACHE (run.sh fetches Debian's into target/vm). The machine runs in virtual time, as that of
# record/record.sh, and has two sockets in one node. QEMU names another emulator than qemu-system-x86_64. Prints for each thread its CPUs and its moves.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
image=${1:?the path of a kernel image}
cores=${2:-4}
qemu=${QEMU:-qemu-system-x86_64}
root=$(mktemp -d)
trap 'rm -rf "$root" "$root.gz"' EXIT
mkdir -p "$root"/{bin,dev,proc,sys,tmp}
gcc -O1 -static -pthread "$here/caches.c" -o "$root/bin/threads"
cp -L "$(command -v busybox)" "$root/bin/busybox"
if [ "$cores" = 2 ]; then cases='"0 2" "0 1 2" "0 2 3" "0 1 2 3"'
else cases='"0 4" "0 1 4" "0 4 5" "0 1 4 5" "0 1 2 4" "0 1 2 4 5" "0 1 4 5 6 7"'; fi
cat > "$root/init" <<END
#!/bin/busybox sh
export PATH=/bin
busybox mount -t proc none /proc; busybox mount -t sysfs none /sys; busybox mount -t debugfs none /sys/kernel/debug
knobs=/sys/kernel/debug/sched/llc_balancing
busybox uname -r
busybox grep . \$knobs/*
for enabled in 1 0; do
    echo \$enabled > \$knobs/enabled
    for cpus in $cases; do
        echo "enabled=\$enabled, threads begin on \$cpus"
        threads 1.5 \$cpus
    done
done
echo "== done"
busybox poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$root.gz"
append="console=ttyS0 quiet panic=-1 mitigations=off nokaslr preempt=full nowatchdog cryptomgr.notests=1 audit=0 tsc=reliable clocksource=tsc"
timeout "${LIMIT:-3600}" "$qemu" -audiodev none,id=a,timer-period=50 -machine q35,pcspk-audiodev=a -accel tcg,thread=single -cpu max \
    -smp "$((2 * cores)),sockets=2,cores=$cores,threads=1" -icount shift=2,sleep=off -rtc clock=vm,base=2026-01-01 -nodefaults -display none \
    -no-reboot -serial stdio -m 1G -kernel "$image" -initrd "$root.gz" -append "$append no-kvmclock tsc_early_khz=1000000 idle=poll" </dev/null | tr -d '\r'
