#!/usr/bin/env bash
# Builds a small kernel with the tracer timerlat for the virtual machine of run.sh: Debian's kernels do not have it.
#
#   scripts/in-vm/kernel-with-timerlat.sh SOURCES OUT [rt]
#
# SOURCES is the directory of a kernel's sources, for example of Debian's package linux-source-7.3; nothing is written there. OUT is the directory of
# the build; the last line that is printed is the image: scripts/in-vm/run.sh IMAGE timerlat. `rt` builds PREEMPT_RT. NICE=10 and JOBS=2 are the defaults.
# The build needs flex, bison, bc and the headers of libelf; else the script prints "skipped" and the reason, and ends well.
# It is the smallest kernel that run.sh can use: serial console, initial file system, groups, perf events, tracefs; no network, no disk, no modules.
# Results: docs/lab/2026-11-26-tails.md.
set -euo pipefail
sources=$(cd "${1:?directory of the kernel sources}" && pwd)
out=${2:?directory of the build}
flavour=${3:-}

skip() { echo "skipped: $*" >&2; exit 0; }
for tool in make gcc flex bison bc; do
    command -v "$tool" >/dev/null || skip "no $tool"
done
[ -f /usr/include/libelf.h ] || skip "no libelf.h (apt-get install libelf-dev)"
mkdir -p "$out"
out=$(cd "$out" && pwd)

model="CONFIG_PREEMPT=y
CONFIG_PREEMPT_DYNAMIC=y"
[ "$flavour" != rt ] || model=CONFIG_PREEMPT_RT=y

# What tinyconfig leaves out and the virtual machine needs. `allnoconfig` answers no to the rest.
cat > "$out/fragment" <<END
# The machine: QEMU's q35 with a serial line, one CPU or several.
CONFIG_64BIT=y
CONFIG_SMP=y
CONFIG_NR_CPUS=8
CONFIG_ACPI=y
CONFIG_PCI=y
CONFIG_HPET_TIMER=y
CONFIG_X86_TSC=y
CONFIG_TTY=y
CONFIG_SERIAL_8250=y
CONFIG_SERIAL_8250_CONSOLE=y
CONFIG_DEVMEM=y
CONFIG_DEVPORT=y
CONFIG_KERNEL_GZIP=y
CONFIG_CC_OPTIMIZE_FOR_PERFORMANCE=y
CONFIG_EXPERT=y
# Programs.
CONFIG_PRINTK=y
CONFIG_BUG=y
CONFIG_KALLSYMS=y
CONFIG_MULTIUSER=y
CONFIG_BLK_DEV_INITRD=y
CONFIG_RD_GZIP=y
CONFIG_BINFMT_ELF=y
CONFIG_BINFMT_SCRIPT=y
CONFIG_PROC_FS=y
CONFIG_SYSCTL=y
CONFIG_SYSFS=y
CONFIG_SHMEM=y
CONFIG_TMPFS=y
CONFIG_DEVTMPFS=y
CONFIG_DEBUG_FS=y
CONFIG_FUTEX=y
CONFIG_EPOLL=y
CONFIG_SIGNALFD=y
CONFIG_TIMERFD=y
CONFIG_EVENTFD=y
CONFIG_POSIX_TIMERS=y
CONFIG_FILE_LOCKING=y
CONFIG_ADVISE_SYSCALLS=y
CONFIG_MEMBARRIER=y
CONFIG_RSEQ=y
CONFIG_PERF_EVENTS=y
# The scheduler.
$model
CONFIG_HZ_1000=y
CONFIG_NO_HZ_IDLE=y
CONFIG_HIGH_RES_TIMERS=y
CONFIG_CGROUPS=y
CONFIG_CGROUP_SCHED=y
CONFIG_FAIR_GROUP_SCHED=y
CONFIG_CFS_BANDWIDTH=y
CONFIG_CPUSETS=y
CONFIG_SCHED_MC=y
# The tracers.
CONFIG_FTRACE=y
CONFIG_TRACING=y
CONFIG_OSNOISE_TRACER=y
CONFIG_TIMERLAT_TRACER=y
END
make -s -C "$sources" O="$out" KCONFIG_ALLCONFIG="$out/fragment" allnoconfig >/dev/null

# Names that this version does not have, or whose conditions are not met.
missing=$(grep '^CONFIG_' "$out/fragment" | grep -vxF -f "$out/.config" || true)
[ -z "$missing" ] || { echo "not in this kernel: ${missing//$'\n'/ }" >&2; }
grep -qx CONFIG_TIMERLAT_TRACER=y "$out/.config" || { echo "no timerlat in these sources" >&2; exit 1; }

nice -n "${NICE:-10}" make -s -C "$sources" O="$out" -j"${JOBS:-2}" bzImage >&2
echo "$out/arch/x86/boot/bzImage"
