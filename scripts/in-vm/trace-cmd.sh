#!/usr/bin/env bash
# Runs the recipe of `zerolag record --print-cmd trace-cmd` in a virtual machine, and brings its files back.
#
#   scripts/in-vm/trace-cmd.sh KERNEL_IMAGE DIRECTORY
#
# The machine has two CPUs (QEMU's TCG). It records hackbench three times: with the recipe (version 7 of the format), as version 6, and with so
# small a buffer that events are lost. DIRECTORY gets v7.dat, v6.dat, lost.dat and, of each, the text of `trace-cmd report`.
# ZEROLAG is the program that prints the recipe (else it is built).
# If something is missing the script prints "skipped" and the reason, and ends well.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)
image=${1:?the path of an image of a kernel}
out=${2:?a directory for the recordings}
mkdir -p "$out"

skip() { echo "skipped: $*" >&2; exit 0; }
for program in qemu-system-x86_64 cpio busybox trace-cmd hackbench; do
    command -v "$program" >/dev/null || skip "no $program"
done
if [ -z "${ZEROLAG:-}" ]; then
    (cd "$repository" && cargo build --release --quiet --bin zerolag)
    ZEROLAG=$repository/target/release/zerolag
fi

root=$out/root.$$
trap 'rm -rf "$root" "$root.gz"' EXIT
mkdir -p "$root"/{bin,dev,proc,sys,tmp,work}
for program in busybox trace-cmd hackbench; do
    path=$(command -v "$program")
    cp -L "$path" "$root/bin/"
    # A static program has no libraries, which ldd calls an error.
    { ldd "$path" 2>/dev/null || true; } | { grep -o '/[^ :]*' || true; } | sort -u | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
done
# The recipe, word for word, but for the program that runs meanwhile.
"$ZEROLAG" record --print-cmd trace-cmd --seconds 1 | sed 's/^  sleep 1$/  hackbench -g 1 -f 3 -l 40/' > "$root/recipe"
grep -q hackbench "$root/recipe"
cp "$here/trace-cmd-init.sh" "$root/init"
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$root.gz"
timeout "${LIMIT:-600}" qemu-system-x86_64 -nodefaults -display none -no-reboot -m 1G -machine q35 -accel tcg -cpu max -smp 2 \
    -kernel "$image" -initrd "$root.gz" -serial stdio -serial "file:$out/files" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off nowatchdog audit=0" </dev/null 2>&1 | tr -d '\r' | tee "$out/log" || true
grep -q '^== done' "$out/log" || { echo "the machine did not come to its end" >&2; exit 1; }
tr -d '\r' < "$out/files" | base64 -d | tar -xz -C "$out"
rm "$out/files"
! grep '^FAILED' "$out/log" >&2
