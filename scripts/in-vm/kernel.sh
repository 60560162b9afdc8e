# Sourced: where the image of a kernel and an emulator for two CPUs are. Needs $work, a directory for downloads.

# Debian's package lists of later releases, which this computer's apt need not know: a configuration of its own, with the mirror and the keys of this
# computer. The lists of sid can be past their date.
later_releases() {
    local apt=$work/apt mirror release keys=/usr/share/keyrings/debian-archive-keyring.gpg
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian //p' | grep -v security | sort -u | head -1)
    [ -n "$mirror" ] && [ -f "$keys" ] || return 1
    mkdir -p "$apt"/{etc/sources.list.d,etc/preferences.d,etc/apt.conf.d,lists/partial,cache/archives/partial}
    : > "$apt/status"
    for release in trixie trixie-backports sid; do echo "deb [signed-by=$keys] $mirror $release main"; done > "$apt/etc/sources.list"
    cat > "$apt/apt.conf" <<END
Dir::Etc "$apt/etc"; Dir::State::Lists "$apt/lists"; Dir::State::status "$apt/status"; Dir::Cache "$apt/cache";
Acquire::Languages "none"; Acquire::Check-Valid-Until "false"; APT::Sandbox::User "root";
END
    export APT_CONFIG=$apt/apt.conf
    [ -n "$(find "$apt/lists" -name '*Packages*' -mtime -7 -print -quit)" ] || apt-get -qq update >&2 || true
}

# Prints the newest package of a series with an image in it: linux-binary since 6.19, linux-image before. `7.3-rt` is the image with PREEMPT_RT.
package() {
    local series=${1%-rt} flavour=
    [ "$series" = "$1" ] || flavour=-rt
    apt-cache search --names-only "^linux-(image|binary)-${series//./\\.}\.[0-9.+~a-z-]*[0-9a-z]$flavour-amd64(-unsigned)?$" | awk '{print $1}' |
        if [ -n "$flavour" ]; then cat; else grep -v -e -rt; fi | grep -v -e -dbg -e -cloud | sort -t- -k3V -k2,2 | awk '
            { version = $0; sub(/^linux-[a-z]*-/, "", version); sub(/-unsigned$/, "", version) }
            version != last { last = version; best = $0 }
            { print best }' | tail -1
}

# Prints the path of the newest image of this series that apt knows.
kernel() {
    local series=$1 package
    [ ! -f "$series" ] || { echo "$series"; return; }
    command -v apt-get >/dev/null || return 1
    package=$(package "$series")
    if [ -z "$package" ]; then
        later_releases || return 1
        package=$(package "$series")
    fi
    [ -n "$package" ] || return 1
    if [ ! -d "$work/$package" ]; then
        (cd "$work" && apt-get download "$package" >&2) || return 1
        mkdir -p "$work/$package.new"
        dpkg-deb --fsys-tarfile "$work/$package"_*.deb | tar -x -C "$work/$package.new" --wildcards '*/vmlinuz*' || return 1
        mv "$work/$package.new" "$work/$package"
    fi
    find "$work/$package" -name 'vmlinuz*' -type f | head -1
}

# Whether an emulator runs two CPUs in virtual time: those before 8.1 starve the second one, and a recording does not end.
runs_two_cpus() {
    local version
    version=$("$1" --version 2> /dev/null | sed -n 's/^QEMU emulator version \([0-9]*\.[0-9]*\).*/\1/p')
    [ "$(printf '%s\n' 8.1 "$version" | sort -V | head -1)" = 8.1 ]
}

# Prints an emulator that runs two CPUs in virtual time: $QEMU, this computer's, or Debian 13's with its libraries.
emulator() {
    local found=${QEMU:-qemu-system-x86_64} deb root=$work/emulator
    if [ -n "${QEMU:-}" ] || runs_two_cpus "$found"; then echo "$found"; return; fi
    if [ ! -x "$root/qemu" ]; then
        (
            later_releases || exit 1
            # All packages that it needs: no package of this computer counts as installed.
            apt-get -qq install -y --no-install-recommends -t trixie --download-only qemu-system-x86 >&2 || exit 1
            for deb in "$work"/apt/cache/archives/*.deb; do dpkg-deb -x "$deb" "$root" || exit 1; done
        ) || return 1
        cat > "$root/qemu" <<END
#!/bin/sh
exec $root/usr/lib64/ld-linux-x86-64.so.2 --library-path $root/usr/lib/x86_64-linux-gnu $root/usr/bin/qemu-system-x86_64 \
    -L $root/usr/share/qemu -L $root/usr/share/seabios "\$@"
END
        chmod +x "$root/qemu"
    fi
    "$root/qemu" --version > /dev/null && echo "$root/qemu"
}
