#!/usr/bin/env bash
# Records real programs under a limit in a virtual machine in virtual time, changes the limit for real, and measures: docs/lab/predictions.md.
#
#   scripts/what-if.sh --vm DIRECTORY [PROGRAM ...]
#
# Boots Debian's kernel KERNEL (7.3) with one and with two CPUs (CPUS, "1 2"), once per program of in-vm/what-if/plan.txt, and runs each of its changes TAKES
# times (4). The programs are those of this computer, with their libraries; one that is missing is skipped with the reason. Nothing else runs there.
# Writes DIRECTORY/CPUS/PROGRAM.CHANGE.TAKE/: `out` (what the client says), stat.before and stat.after (cpu.stat around the work), and of the first RECORDINGS (2)
# takes of `base` trace.txt, cgroup.before and cgroup.after by the commands of `zerolag record --print-cmd tracefs --cgroup zl`. Every take is recorded so, since
# recording takes time. What is there already is not run again. Then scripts/what-if-vm.py DIRECTORY imports, simulates and compares. ZEROLAG is the program.
set -euo pipefail
out=$(mkdir -p "${1:?a directory}" && cd "$1" && pwd)
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/.." && pwd)
parts=$here/in-vm/what-if
plan=${PLAN:-$parts/plan.txt}
ZEROLAG=${ZEROLAG:-$repository/target/quick/zerolag}
work=${WORK:-$repository/target/vm}
skip() { echo "skipped: $*" >&2; exit 0; }
for tool in cpio busybox gcc python3 zstd; do command -v "$tool" > /dev/null || skip "no $tool"; done
mkdir -p "$work"
. "$here/in-vm/kernel.sh"
. "$parts/programs.sh"
image=$(kernel "${KERNEL:-7.3}") || skip "no kernel ${KERNEL:-7.3}"
qemu=$(emulator) || skip "no QEMU of version 8.1 or later: QEMU names one"
[ $# -gt 0 ] || mapfile -t programs < <(sed -n 's/^program \([^ ]*\).*/\1/p' "$plan")
[ $# -eq 0 ] || programs=("$@")
root=$work/what-if.$$
trap 'rm -rf "$root" "$root.cpio" "$root.data" "$root.gdb" "$root.in"' EXIT

# copy PATH: a program with its libraries, a file or a directory, to the same place of the machine.
copy() {
    local path library
    mkdir -p "$root$(dirname "$1")"
    # A link that leads nowhere is left out.
    cp -aL "$1" "$root$1" 2> /dev/null || true
    { find -L "$1" -type f \( -name '*.so*' -o -perm -u+x \) | while read -r path; do ldd "$path" 2> /dev/null || true; done; } |
        { grep -o '/[^ :]*' || true; } | sort -u | while read -r library; do
        [ -e "$root$library" ] || [ ! -f "$library" ] || { mkdir -p "$root$(dirname "$library")"; cp -L "$library" "$root$library"; }
    done
}

# Inputs of programs, made once.
inputs() {
    case $1 in
        go)
            command -v go > /dev/null || return 1
            [ -x "$work/go-server" ] || (cd "$parts" && CGO_ENABLED=0 GO111MODULE=off go build -o "$work/go-server" server.go) || return 1
            cp "$work/go-server" "$root/bin/" ;;
        pool) cp "$parts/pool.py" "$root/" ;;
        http) cp "$parts/http_server.py" "$root/" ;;
        node) cp "$parts/server.js" "$root/" ;;
        sqlite) python3 "$parts/inputs.py" transactions > "$root/transactions.sql" ;;
        xz) mkdir -p "$root/usr/share" && python3 "$parts/inputs.py" text > "$root/usr/share/text" ;;
        x264) python3 "$parts/inputs.py" frames > "$root/frames.y4m" ;;
        build) python3 "$parts/inputs.py" source "$root/source" ;;
        java) command -v javac > /dev/null || return 1; javac --release 17 -d "$root" "$parts/Batch.java" ;;
        pgbench)
            # A database of scale 1, made here as a user without rights, as the server wants it.
            local bin=/usr/lib/postgresql/15/bin as=(setpriv --reuid 1000 --regid 1000 --clear-groups)
            if [ ! -d "$work/postgres" ]; then
                rm -rf "$work/postgres.new"
                mkdir -p "$work/postgres.new"
                chown 1000:1000 "$work/postgres.new"
                (
                    cd /
                    "${as[@]}" "$bin/initdb" -D "$work/postgres.new/data" -U postgres -A trust --locale=C &&
                    "${as[@]}" "$bin/pg_ctl" -D "$work/postgres.new/data" -o "-p 5499 -k /tmp -c listen_addresses= -c fsync=off" -w start &&
                    pgbench -h /tmp -p 5499 -U postgres -i -s 1 postgres &&
                    "${as[@]}" "$bin/pg_ctl" -D "$work/postgres.new/data" -w stop
                ) > "$work/postgres.log" 2>&1 || return 1
                mv "$work/postgres.new" "$work/postgres"
            fi
            cp -a "$work/postgres" "$root/postgres" ;;
    esac
}

# An initial file system with busybox, the client and a program. False, with the reason said, if the program is missing.
file_system() {
    local program=$1 tool path
    rm -rf "$root"
    mkdir -p "$root"/{bin,dev,proc,sys,tmp,etc,usr/bin}
    printf 'root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n' > "$root/etc/passwd"
    printf 'root:x:0:\nuser:x:1000:\n' > "$root/etc/group"
    echo '127.0.0.1 localhost' > "$root/etc/hosts"
    [ "$work/client" -nt "$parts/client.c" ] || gcc -O2 -Wall -static -o "$work/client" "$parts/client.c" -lm
    cp "$work/client" "$root/bin/"
    inputs "$program" || { echo "skipped: $program cannot be prepared" >&2; return 1; }
    for tool in busybox /usr/bin/zstd $("need_$program"); do
        path=$tool
        [[ $tool = /* ]] || path=$(PATH=$root/bin:$PATH:/usr/sbin:/sbin type -P "$tool") || { echo "skipped: no $tool for $program" >&2; return 1; }
        [ -e "$path" ] || { echo "skipped: no $path for $program" >&2; return 1; }
        case $path in
            "$root"/*) ;;
            *) copy "$path" ;;
        esac
    done
    cp -L "$(type -P busybox)" "$root/bin/busybox"
    cp "$parts/init.sh" "$root/init"
    cp "$parts/programs.sh" "$root/"
    chmod +x "$root/init"
    "$ZEROLAG" record --print-cmd tracefs --cgroup zl --seconds 8 > "$root/recipe"
    grep -q 'sleep 8;' "$root/recipe"
}

# boot CPUS: the takes of $root/takes. Two CPUs execute in turns of at most 25 us on one clock, so each has half of its instructions (2 ns each here, 4 with one CPU).
# An idle CPU polls; its `pause` would give its turn to the other one, which would then be faster. what-if-gdb.py removes it.
boot() {
    local cpus=$1 shift=2 pid code=0
    local append="console=ttyS0 quiet panic=-1 mitigations=off nokaslr nowatchdog cryptomgr.notests=1 audit=0 noautogroup tsc=reliable clocksource=tsc no-kvmclock tsc_early_khz=1000000 ${APPEND:-}"
    local machine=(-machine q35)
    [ "$cpus" = 1 ] || { machine=(-audiodev none,id=a,timer-period=50 -machine q35,pcspk-audiodev=a); append+=" idle=poll"; shift=1; }
    (cd "$root" && find . | cpio -o -H newc --quiet) > "$root.cpio"
    rm -f "$root.in" "$root.gdb" "$root.data"
    mkfifo "$root.in"
    : > "$root.log"
    timeout "${LIMIT:-3000}" nice -n 19 "$qemu" "${machine[@]}" -nodefaults -display none -no-reboot -serial stdio -serial "file:$root.data" -m 3G \
        -gdb "unix:$root.gdb,server=on,wait=off" -accel tcg,thread=single -cpu max -smp "$cpus" -icount shift=$shift,sleep=off -rtc clock=vm,base=2026-01-01 \
        -kernel "$image" -initrd "$root.cpio" -append "$append" <> "$root.in" > "$root.log" 2>&1 &
    pid=$!
    [ "$cpus" = 1 ] || python3 "$parts/idle.py" "$root.log" "$root.gdb" "$root.in" "$pid"
    wait "$pid" || code=$?
    tr -d '\r' < "$root.log" | tee -a "$out/$cpus/log" | grep -a -e '^== ' -e "^FAILED" || true
    zstd -q -dc < "$root.data" 2> /dev/null | tar -C "$out/$cpus" --ignore-zeros -xf - || true
    rm -f "$root.log" "$root.data"
    [ $code = 0 ] || echo "the machine of $cpus CPUs ended with $code" >&2
}

for program in "${programs[@]}"; do
    for cpus in ${CPUS:-1 2}; do
        mkdir -p "$out/$cpus"
        takes=()
        while read -r _ _ change quota period burst workers; do
            for take in $(seq "${TAKES:-4}"); do
                [ ! -e "$out/$cpus/$program.$change.$take/stat.after" ] || continue
                recorded=no
                [ "$change" != base ] || [ "$take" -gt "${RECORDINGS:-2}" ] || recorded=yes
                takes+=("$program $change $take $quota $period $burst $workers $recorded")
            done
        done < <(grep "^change $program " "$plan")
        [ ${#takes[@]} != 0 ] || continue
        file_system "$program" || continue
        printf '%s\n' "${takes[@]}" > "$root/takes"
        began=$SECONDS
        boot "$cpus"
        echo "$program, $cpus CPUs, ${#takes[@]} takes: $((SECONDS - began)) s" | tee -a "$out/times"
    done
done
