#!/usr/bin/env bash
# Runs the Linux host of zerolag on a Debian kernel with cgroup v2, in a virtual machine: groups, limits and their removal, then `validate --live`.
#
#   scripts/in-vm/run.sh [6.1|6.12|KERNEL_IMAGE] [groups|validate|all] [ARGUMENTS OF validate --live]
#
# The machine has one CPU and runs in virtual time (QEMU's TCG with -icount): its clock advances by 4 ns per instruction and jumps over
# idle time, so that other programs on this computer do not disturb a run. ACCEL=kvm uses the computer's own CPU and clock instead.
# ZEROLAG is the program to test (else it is built). apt-get downloads kernels as packages of Debian, of the releases that this
# computer's apt knows, into target/vm. If something is missing the script prints "skipped" and the reason, and ends well. Results:
# docs/lab/2026-11-22-virtual-machines.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)
wanted=${1:-6.1}
part=${2:-all}
work=$repository/target/vm

skip() { echo "skipped: $*" >&2; exit 0; }

command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64 (apt-get install qemu-system-x86)"
command -v cpio >/dev/null || skip "no cpio (apt-get install cpio)"
busybox=$(command -v busybox || true)
[ -n "$busybox" ] || skip "no busybox (apt-get install busybox-static)"
mkdir -p "$work"

# The newest signed or unsigned image of this series that apt knows.
kernel() {
    local series=$1 package
    [ ! -f "$series" ] || { echo "$series"; return; }
    command -v apt-get >/dev/null || return 1
    package=$(apt-cache search --names-only "^linux-image-${series//./\\.}\.[0-9.+~a-z-]*[0-9a-z]-amd64(-unsigned)?$" | awk '{print $1}' | grep -v -e -dbg -e -cloud -e -rt | sort -V | tail -1)
    [ -n "$package" ] || return 1
    if [ ! -d "$work/$package" ]; then
        (cd "$work" && apt-get download "$package" >&2) || return 1
        mkdir "$work/$package.new"
        dpkg-deb --fsys-tarfile "$work/$package"_*.deb | tar -x -C "$work/$package.new" --wildcards './boot/vmlinuz-*' || return 1
        mv "$work/$package.new" "$work/$package"
    fi
    ls "$work/$package"/boot/vmlinuz-*
}
image=$(kernel "$wanted") || skip "no kernel $wanted: apt has no linux-image-$wanted*-amd64; give the path of an image"

if [ -z "${ZEROLAG:-}" ]; then
    (cd "$repository" && cargo build --release --quiet --bin zerolag)
    ZEROLAG=$repository/target/release/zerolag
fi

# An initial file system: busybox, the program with its libraries, the cases.
root=$work/root.$$
trap 'rm -rf "$root" "$root.gz"' EXIT
mkdir -p "$root"/{bin,dev,proc,sys,tmp}
cp -L "$busybox" "$root/bin/busybox"
cp -L "$ZEROLAG" "$root/bin/zerolag"
# A static program has no libraries, which ldd calls an error.
{ ldd "$ZEROLAG" || true; ldd "$busybox" || true; } 2>/dev/null | grep -o '/[^ ]*' | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
cp "$here"/*.toml "$root/"
cp -r "$repository/conformance" "$root/conformance"
cp "$here/init.sh" "$root/init"
shift $(($# < 2 ? $# : 2))
if [ $# = 0 ]; then set -- --runs 2 -d 10s conformance; fi
echo "$@" > "$root/arguments"
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$root.gz"

append="console=ttyS0 quiet panic=-1 mitigations=off nokaslr preempt=full nowatchdog cryptomgr.notests=1 audit=0 part=$part"
machine=(-nodefaults -display none -no-reboot -serial stdio -m 1G -kernel "$image" -initrd "$root.gz")
if [ "${ACCEL:-tcg}" = kvm ]; then
    [ -w /dev/kvm ] || skip "no /dev/kvm that may be written"
    machine=(-machine q35 -accel kvm -cpu host,-arch-capabilities -smp "${CPUS:-2}" "${machine[@]}" -append "$append")
else
    append="$append tsc=reliable clocksource=tsc no-kvmclock tsc_early_khz=1000000"
    machine=(-machine q35 -accel tcg,thread=single -cpu max -smp 1 -icount shift=2,sleep=off -rtc clock=vm,base=2026-01-01 "${machine[@]}" -append "$append")
fi
log=$work/log
timeout "${LIMIT:-3600}" qemu-system-x86_64 "${machine[@]}" </dev/null 2>&1 | tr -d '\r' | tee "$log" || true
if ! grep -q '^== done' "$log"; then
    echo "the machine did not come to its end" >&2
    exit 1
fi
! grep -q '^FAILED' "$log" || { grep '^FAILED' "$log" >&2; exit 1; }
