#!/usr/bin/env bash
# Runs the Linux host of zerolag on a Debian kernel with cgroup v2, in a virtual machine: groups, limits and their removal, then `validate --live`.
#
#   scripts/in-vm/run.sh [6.1|6.12|7.3|7.3-rt|KERNEL_IMAGE] [groups|validate|calibrate|all] [ARGUMENTS OF validate --live]
#   scripts/in-vm/run.sh KERNEL_IMAGE timerlat [SECONDS [CALIBRATIONS [none|hogs|kernel]]]
#   scripts/in-vm/run.sh KERNEL_IMAGE models [SECONDS]
#   scripts/in-vm/run.sh KERNEL_IMAGE stacks [SECONDS [none|hogs|kernel [US]]]
#   scripts/in-vm/run.sh 7.3|KERNEL_IMAGE threads [SECONDS [none|hogs|kernel]]
#   scripts/in-vm/run.sh 7.3|KERNEL_IMAGE scx|rules [SECONDS]
#   scripts/in-vm/run.sh 7.3|KERNEL_IMAGE policies [vtime,fifo [WORKLOAD,...]]
#   scripts/in-vm/run.sh 7.3|KERNEL_IMAGE overhead
#
# `timerlat` runs the kernel's tracer of that name and `zerolag calibrate --noise` in turns in one boot, and brings latencies and profiles back to OUT
# (target/vm/timerlat); timerlat.py compares them. `models` runs timerlat and osnoise without and with a load, for models.sh. `stacks` brings
# back what timerlat's timer interrupted, for threads later than US. These need a kernel of
# kernel-with-timerlat.sh. `threads` records when the kernel's own threads run; threads.py counts them. `kernel` is the load of load.sh.
# `scx` loads policies into the kernel (crates/scx), compares shares with the simulator's, and ends the program in every bad way; it needs clang.
# `rules` is the part of it with rules of threads.
# `policies` runs the workloads of policies/ under loaded policies, for policies.py; `overhead` measures what switches cost under the kernel's own scheduler,
# loaded policies, and other schedulers of sched_ext whose programs OTHERS names (paths, separated by spaces).
# The machine has one CPU and runs in virtual time (QEMU's TCG with -icount): its clock advances by 4 ns per instruction and jumps over
# idle time, so that other programs on this computer do not disturb a run. ACCEL=kvm uses the computer's own CPU and clock instead, ACCEL=tcg-threads emulates
# two CPUs with the computer's clock, so that other programs disturb them as they disturb a virtual machine. CPUS=2 in virtual time is the machine of
# record/record.sh, and needs QEMU 8.1 or later (QEMU names another one). PREEMPT=full chooses the preemption model of a kernel that has several.
# ZEROLAG, and ZEROLAG_SCX for `scx`, are the programs to test (else they are built). apt-get downloads kernels as packages of Debian into target/vm: of the releases that this
# computer's apt knows, or of later ones from the same mirror. If something is missing the script prints "skipped" and the reason, and ends well.
# Results: docs/lab/virtual-machines.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)
wanted=${1:-6.1}
part=${2:-all}
work=$repository/target/vm

skip() { echo "skipped: $*" >&2; exit 0; }

qemu=${QEMU:-qemu-system-x86_64}
command -v "$qemu" >/dev/null || skip "no $qemu (apt-get install qemu-system-x86)"
command -v cpio >/dev/null || skip "no cpio (apt-get install cpio)"
busybox=$(command -v busybox || true)
[ -n "$busybox" ] || skip "no busybox (apt-get install busybox-static)"
mkdir -p "$work"

. "$here/kernel.sh"
image=$(kernel "$wanted") || skip "no kernel $wanted: apt has no linux-image-$wanted*-amd64; give the path of an image"

if [ -z "${ZEROLAG:-}" ]; then
    (cd "$repository" && cargo build --release --quiet --bin zerolag)
    ZEROLAG=$repository/target/release/zerolag
fi

case $part in scx | rules | policies | overhead) needs_scx=1 ;; *) needs_scx= ;; esac
if [ -n "$needs_scx" ]; then
    command -v cc >/dev/null || skip "no C compiler (apt-get install gcc)"
    if [ -z "${ZEROLAG_SCX:-}" ]; then
        built=$work/scx-build.log
        cargo build --release --quiet --manifest-path "$repository/crates/scx/Cargo.toml" --target-dir "$repository/target/scx" 2> "$built" ||
            skip "zerolag-scx cannot be built: $(grep -m1 '^error' "$built") ($built)"
        ZEROLAG_SCX=$repository/target/scx/release/zerolag-scx
    fi
fi

# An initial file system: busybox, the program with its libraries, the cases.
root=$work/root.$$
log=$work/log.$$
data=$work/data.$$
trap 'rm -rf "$root" "$root.gz" "$log" "$data"' EXIT
mkdir -p "$root"/{bin,dev,proc,sys,tmp}
cp -L "$busybox" "$root/bin/busybox"
cp -L "$ZEROLAG" "$root/bin/zerolag"
programs=("$ZEROLAG" "$busybox")
# Programs of the load and of osnoise, as far as they are installed.
for tool in hackbench stress-ng ip tc chrt; do
    program=$(PATH=$PATH:/usr/sbin:/sbin command -v "$tool") || continue
    cp -L "$program" "$root/bin/$tool"
    programs+=("$program")
done
if [ -n "$needs_scx" ]; then
    for program in ${OTHERS:-}; do cp -L "$program" "$root/bin/" && programs+=("$program"); done
    cp -L "$ZEROLAG_SCX" "$root/bin/zerolag-scx"
    programs+=("$ZEROLAG_SCX")
    program=$(command -v perf) && cp -L "$program" "$root/bin/perf" && programs+=("$program")
    "$ZEROLAG" schema policy > "$root/zerolag_policy.h"
    policy() { cc -O2 -shared -fPIC "-I$root" -o "$root/$1.so" "${@:2}"; }
    policy vtime "$repository/examples/policies/vtime.c"
    policy wake-first "$repository/examples/policies/wake-first.c"
    for fault in FORGETS LOOPS FORBIDDEN; do policy "$fault" "-D$fault" "$here/faulty.c"; done
fi
# A static program has no libraries, which ldd calls an error.
for program in "${programs[@]}"; do ldd "$program" 2>/dev/null || true; done | grep -o '/[^ ]*' | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
cp "$here"/*.toml "$root/"
cp -r "$repository/conformance" "$root/conformance"
cp -r "$here/policies" "$root/policies"
cp "$here/init.sh" "$root/init"
cp "$here/load.sh" "$root/load.sh"
shift $(($# < 2 ? $# : 2))
if [ $# = 0 ] && [[ "$part" =~ ^(all|validate)$ ]]; then set -- --runs 2 -d 10s conformance; fi
echo "$@" > "$root/arguments"
for program in ${OTHERS:-}; do basename "$program"; done > "$root/others"
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$root.gz"

append="console=ttyS0 quiet panic=-1 mitigations=off nokaslr preempt=${PREEMPT:-full} nowatchdog cryptomgr.notests=1 audit=0 part=$part"
machine=(-nodefaults -display none -no-reboot -serial stdio -serial "file:$data" -m 1G -kernel "$image" -initrd "$root.gz")
if [ "${ACCEL:-tcg}" = kvm ]; then
    [ -w /dev/kvm ] || skip "no /dev/kvm that may be written"
    machine=(-machine q35 -accel kvm -cpu host,-arch-capabilities -smp "${CPUS:-2}" "${machine[@]}" -append "$append")
elif [ "${ACCEL:-tcg}" = tcg-threads ]; then
    machine=(-machine q35 -accel tcg,thread=multi -cpu max -smp "${CPUS:-2}" "${machine[@]}" -append "$append tsc=reliable clocksource=tsc no-kvmclock no_timer_check")
else
    append="$append tsc=reliable clocksource=tsc no-kvmclock tsc_early_khz=1000000"
    board=(-machine q35)
    [ "${CPUS:-1}" = 1 ] || { board=(-audiodev none,id=a,timer-period=50 -machine q35,pcspk-audiodev=a); append+=" idle=poll"; }
    machine=("${board[@]}" -accel tcg,thread=single -cpu max -smp "${CPUS:-1}" -icount shift=2,sleep=off -rtc clock=vm,base=2026-01-01 "${machine[@]}" -append "$append")
fi
timeout "${LIMIT:-3600}" "$qemu" "${machine[@]}" </dev/null 2>&1 | stdbuf -oL tr -d '\r' | tee "$log" || true
if grep -q '^begin ' "$data" 2>/dev/null; then
    # Each file as it was finished: a boot that is cut short leaves those before.
    out=${OUT:-$work/$part}
    mkdir -p "$out"
    tr -d '\r' < "$data" | awk -v out="$out" '
        /^begin / { command = "base64 -d | gzip -dc > " out "/" $2; next }
        /^end/ { close(command); command = ""; next }
        command != "" { print | command }'
    echo "results: $out"
fi
if ! grep -q '^== done' "$log"; then
    echo "the machine did not come to its end" >&2
    exit 1
fi
! grep -q '^FAILED' "$log" || { grep '^FAILED' "$log" >&2; exit 1; }
