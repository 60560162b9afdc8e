#!/usr/bin/env bash
# Records workloads on a kernel in a virtual machine in virtual time: a trace of the scheduler's events per workload.
#
#   scripts/in-vm/record/record.sh KERNEL_IMAGE CPUS OUT WORKLOAD.toml[:PARAMETER=VALUE,...]...
#
# Plays each workload TAKES times (1). Writes OUT/NAME.TAKE.txt.gz (text of tracefs), OUT/NAME.TAKE.origin (the instant of the workload's start, in ns) and
# OUT/log. figures.py turns traces into a case. APPEND adds to the kernel's command line. Two CPUs need QEMU 8.1 or later (QEMU names another one): earlier
# ones starve the second CPU in virtual time. CACHES divides the CPUs among so many sockets, each with a cache of its own. TURN_US is how long the turns of two
# virtual CPUs are at most (25). ACCEL=tcg-threads emulates each CPU by a thread, with the computer's clock: a second witness of two CPUs on a computer that does
# nothing else.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
image=${1:?image of a kernel} cpus=${2:?number of CPUs} out=${3:?directory}
shift 3
skip() { echo "skipped: $*" >&2; exit 0; }
qemu=${QEMU:-qemu-system-x86_64}
. "$here/../kernel.sh"
for tool in "$qemu" cpio busybox gcc python3; do
    command -v "$tool" >/dev/null || skip "no $tool"
done
if [ "$cpus" -gt 1 ] && ! runs_two_cpus "$qemu"; then
    skip "$qemu is older than 8.1, so two CPUs in virtual time would not end: QEMU names another one; fresh.sh downloads one"
fi
mkdir -p "$out"
root=$(mktemp -d)
trap 'rm -rf "$root" "$root.gz" "$root.data"' EXIT
mkdir -p "$root"/{bin,dev,proc,sys,tmp,cases}
gcc -O2 -Wall -static -pthread -o "$root/bin/play" "$here/play.c"
busybox=$(command -v busybox)
cp -L "$busybox" "$root/bin/busybox"
{ ldd "$busybox" || true; } 2>/dev/null | { grep -o '/[^ ]*' || true; } | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
for workload in "$@"; do
    python3 "$here/plan.py" "$workload" "$root/cases/$(python3 "$here/plan.py" --name "$workload")"
done
cp "$here/init.sh" "$root/init"
chmod +x "$root/init"
echo "${TAKES:-1}" > "$root/takes"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$root.gz"

append="console=ttyS0 quiet panic=-1 mitigations=off nokaslr nowatchdog cryptomgr.notests=1 audit=0 noautogroup tsc=reliable clocksource=tsc no-kvmclock tsc_early_khz=1000000 ${APPEND:-}"
machine=(-machine q35)
smp=$cpus
[ "${CACHES:-1}" = 1 ] || smp=$cpus,sockets=$CACHES,cores=$((cpus / CACHES))
# Turns of 25 us at most: half the period of the voice's timer. Idle CPUs poll: between the takes both would sleep for 300 s of virtual time now and
# then (6.1 and 7.3; the emulator loses a wakeup), which takes minutes to emulate with that timer.
[ "$cpus" = 1 ] || { machine=(-audiodev none,id=a,timer-period=$((2 * ${TURN_US:-25})) -machine q35,pcspk-audiodev=a); append+=" idle=poll"; }
clock=(-accel tcg,thread=single -icount shift=2,sleep=off)
# There the guest's time stamps are the host's, whose rate the kernel finds out.
[ "${ACCEL:-tcg}" != tcg-threads ] || { clock=(-accel tcg,thread=multi); machine=(-machine q35); append=${append/ tsc_early_khz=1000000/}; }
timeout "${LIMIT:-3000}" "$qemu" "${machine[@]}" -nodefaults -display none -no-reboot -serial stdio -serial "file:$root.data" -m 1500M \
    "${clock[@]}" -cpu max -smp "$smp" -rtc clock=vm,base=2026-01-01 \
    -kernel "$image" -initrd "$root.gz" -append "$append" </dev/null 2>&1 | tr -d '\r' | tee "$out/log" | grep -a '^== ' || true
grep -aq '^== done' "$out/log" || { echo "the machine did not come to its end" >&2; exit 1; }
tr -d '\r' < "$root.data" | awk -v out="$out" '
    /^begin / { name = $2; print $3 > (out "/" name ".origin"); close(out "/" name ".origin"); command = "base64 -d > " out "/" name ".txt.gz"; next }
    /^end / { close(command); name = ""; next }
    name != "" { print | command }'
