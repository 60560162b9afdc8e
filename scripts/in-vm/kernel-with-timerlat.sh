#!/usr/bin/env bash
# Builds a small kernel with the tracers timerlat and osnoise for the virtual machine of run.sh: Debian's kernels do not have them.
#
#   scripts/in-vm/kernel-with-timerlat.sh SOURCES OUT [rt] [sections]
#
# SOURCES is the directory of a kernel's sources, for example of Debian's packages linux-source-6.12 and linux-source-7.3; nothing is written there. OUT is
# the directory of the build; the last line that is printed is the image: scripts/in-vm/run.sh IMAGE timerlat. Without `rt` the model is chosen at boot
# (PREEMPT=none, voluntary or full in 6.12; full or lazy in 7.3), `rt` builds PREEMPT_RT. `sections` adds the tracers of sections without preemption or
# interrupts, which slow each of them. NICE=10 and JOBS=2 are the defaults.
# The build needs flex, bison, bc and the headers of libelf; else the script prints "skipped" and the reason, and ends well.
# It is the smallest kernel that run.sh can use: serial console, initial file system, groups, perf events, tracefs, sockets on the loopback device; no
# network card, no disk, no modules.
# Results: docs/lab/calibration.md, docs/lab/preempt-rt.md.
set -euo pipefail
sources=$(cd "${1:?directory of the kernel sources}" && pwd)
out=${2:?directory of the build}
shift 2

skip() { echo "skipped: $*" >&2; exit 0; }
for tool in make gcc flex bison bc; do
    command -v "$tool" >/dev/null || skip "no $tool"
done
[ -f /usr/include/libelf.h ] || skip "no libelf.h (apt-get install libelf-dev)"
mkdir -p "$out"
out=$(cd "$out" && pwd)

model="CONFIG_PREEMPT=y
CONFIG_PREEMPT_DYNAMIC=y"
tracers=
for word; do
    case $word in
        rt) model=CONFIG_PREEMPT_RT=y ;;
        sections) tracers=$'CONFIG_PREEMPT_TRACER=y\nCONFIG_IRQSOFF_TRACER=y' ;;
        *) echo "unknown: $word" >&2; exit 1 ;;
    esac
done

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
CONFIG_PROC_SYSCTL=y
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
CONFIG_NET=y
CONFIG_UNIX=y
CONFIG_INET=y
CONFIG_NETDEVICES=y
CONFIG_NET_CORE=y
CONFIG_VETH=y
CONFIG_NET_SCHED=y
CONFIG_NET_SCH_NETEM=y
CONFIG_NET_SCH_INGRESS=y
CONFIG_NET_CLS=y
CONFIG_NET_CLS_ACT=y
CONFIG_NET_CLS_MATCHALL=y
CONFIG_NET_ACT_MIRRED=y
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
CONFIG_SCHED_DEBUG=y
# The tracers.
CONFIG_FTRACE=y
CONFIG_TRACING=y
CONFIG_OSNOISE_TRACER=y
CONFIG_TIMERLAT_TRACER=y
$tracers
END
make -s -C "$sources" O="$out" KCONFIG_ALLCONFIG="$out/fragment" allnoconfig >/dev/null

# Names that this version does not have, or whose conditions are not met.
missing=$(grep '^CONFIG_' "$out/fragment" | grep -vxF -f "$out/.config" || true)
[ -z "$missing" ] || { echo "not in this kernel: ${missing//$'\n'/ }" >&2; }
grep -qx CONFIG_TIMERLAT_TRACER=y "$out/.config" || { echo "no timerlat in these sources" >&2; exit 1; }

nice -n "${NICE:-10}" make -s -C "$sources" O="$out" -j"${JOBS:-2}" bzImage >&2
echo "$out/arch/x86/boot/bzImage"
