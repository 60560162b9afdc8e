#!/usr/bin/env bash
# Makes what users install in target/dist: an archive with the static program, its completions and man pages; a wheel with the module
# and the program; a container image's directory; the list of the packages inside (SBOM); checksums.
#
#   scripts/release.sh [--check] [--twice]
#
# --check  installs each into an empty root and runs it there
# --twice  builds the program again in another directory, and compares the bytes
#
# Nothing in an archive depends on the time, the user, the directory or the order of files: times are that of the commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check=0 twice=0
for option in "$@"; do
    case "$option" in
        --check) check=1 ;;
        --twice) twice=1 ;;
        *) echo "scripts/release.sh: no option $option; there are --check and --twice" >&2; exit 2 ;;
    esac
done
stage() { echo "== $*" >&2; }
# The second build is that of the commit.
if [ "$twice" = 1 ] && [ -n "$(git status --porcelain)" ]; then
    echo "scripts/release.sh --twice compares builds of a commit, and files here have changed since" >&2
    exit 2
fi

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
triple=$(uname -m)-unknown-linux-musl
name=zerolag-$version-$triple
out=$PWD/target/dist
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# The target is of pure Rust: no C compiler, and rust-lld links it.
rustup target list --installed 2>/dev/null | grep -qx "$triple" || rustup target add "$triple" >&2

# Compiles the static program of the sources in directory $1 into $1/target/static.
program() {
    (
        cd "$1"
        export CARGO_INCREMENTAL=0
        export RUSTFLAGS="--remap-path-prefix=$PWD=/zerolag --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
        cargo build --quiet --locked --release --config 'profile.release.strip=true' --config 'profile.release.debug=false' \
            --target "$triple" --target-dir target/static -p zerolag-cli --bin zerolag
    )
}

# The list of packages in CycloneDX's form: what `cargo metadata` says of those that the program is built from.
packages() {
    cargo metadata --locked --format-version 1 --filter-platform "$triple" | python3 -c '
import json, sys
version, stamp = sys.argv[1:]
read = json.load(sys.stdin)
nodes = {node["id"]: node for node in read["resolve"]["nodes"]}
by_id = {package["id"]: package for package in read["packages"]}
open_ids = [package["id"] for package in read["packages"] if package["name"] == "zerolag-cli"]
seen = set()
while open_ids:
    here = open_ids.pop()
    if here in seen:
        continue
    seen.add(here)
    open_ids += [dep["pkg"] for dep in nodes[here]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
components = [
    {
        "type": "library",
        "bom-ref": "pkg:cargo/{name}@{version}".format(**package),
        "name": package["name"],
        "version": package["version"],
        "licenses": [{"expression": (package["license"] or "NOASSERTION").replace("/", " OR ")}],
        "purl": "pkg:cargo/{name}@{version}".format(**package),
    }
    for package in sorted((by_id[one] for one in seen), key=lambda package: (package["name"], package["version"]))
]
json.dump({
    "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
    "metadata": {"timestamp": stamp, "component": {"type": "application", "name": "zerolag", "version": version}},
    "components": components,
}, sys.stdout, indent=1)
print()
' "$version" "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)"
}

# Packs a directory: same content, same bytes.
pack() {
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$(dirname "$1")" -cf - "$(basename "$1")" | gzip -9n >"$2"
}

stage "the static program"
program "$PWD"
built=$PWD/target/static/$triple/release/zerolag
rm -rf "$out"
mkdir -p "$out/$name/completions" "$out/$name/man" "$out/container"
install -m 755 "$built" "$out/$name/zerolag"
cp README.md LICENSE-MIT LICENSE-APACHE CHANGELOG.md "$out/$name/"
"$built" man --dir "$out/$name/man" >&2
for shell in bash elvish fish powershell zsh; do "$built" completions "$shell" >"$out/$name/completions/zerolag.$shell"; done
pack "$out/$name" "$out/$name.tar.gz"

stage "the list of packages"
packages >"$out/$name.cdx.json"

stage "the directory of a container image"
cp "$out/$name/zerolag" "$out/container/"
cp scripts/Containerfile "$out/container/Containerfile"

stage "the wheel, with the program"
venv=target/python/venv
[ -x "$venv/bin/maturin" ] || { rm -rf "$venv"; python3 -m venv "$venv"; "$venv/bin/pip" install --quiet "$(grep '^maturin' python/requirements-test.txt)" >&2; }
data=python/zerolag.data
trap 'rm -rf "$data/scripts" "$data/data/share/man" "$data/data/share/bash-completion"' EXIT
mkdir -p "$data/scripts" "$data/data/share/man" "$data/data/share/bash-completion/completions"
cp "$out/$name/zerolag" "$data/scripts/"
mkdir -p "$data/data/share/man/man1"
cp "$out/$name/man/"*.1 "$data/data/share/man/man1/"
cp "$out/$name/completions/zerolag.bash" "$data/data/share/bash-completion/completions/zerolag"
wheel() {
    PATH="$PWD/$venv/bin:$PATH" "$venv/bin/maturin" build --quiet --release --strip --locked --manifest-path python/Cargo.toml \
        --target-dir target/python/build --config 'profile.release.debug=false' --out "$out" "$@" >&2
}
# One for each C library: from glibc 2.17 on, and musl (Alpine). zig links both; this machine's glibc is newer than many that the wheel is for.
if "$venv/bin/python" -c 'import ziglang' 2>/dev/null || "$venv/bin/pip" install --quiet --disable-pip-version-check ziglang >&2; then
    wheel --zig --target "$(uname -m)-unknown-linux-gnu" --compatibility manylinux2014
    wheel --zig --target "$triple" --compatibility musllinux_1_2
else
    echo "one wheel, for the C library of this machine: zig cannot be installed" >&2
    wheel
fi

(cd "$out" && sha256sum ./*.tar.gz ./*.whl ./*.cdx.json >SHA256SUMS)

if [ "$twice" = 1 ]; then
    stage "the program again, elsewhere"
    elsewhere=$(mktemp -d)
    git archive HEAD | tar -x -C "$elsewhere"
    program "$elsewhere"
    differs=0
    cmp "$built" "$elsewhere/target/static/$triple/release/zerolag" >&2 || differs=1
    rm -rf "$elsewhere"
    [ "$differs" = 0 ] || { echo "two builds of one commit differ" >&2; exit 1; }
    echo "the same bytes in another directory" >&2
fi

if [ "$check" = 1 ]; then
    root=$(mktemp -d)
    stage "the archive in an empty root"
    (cd "$out" && sha256sum --quiet -c SHA256SUMS)
    tar -xzf "$out/$name.tar.gz" -C "$root"
    mkdir "$root/work"
    cp examples/audio.json "$root/work/"
    inside() { if [ "$(id -u)" = 0 ]; then chroot "$root" "$@"; else unshare -r chroot "$root" "$@"; fi; }
    [ "$(inside "/$name/zerolag" --version)" = "zerolag $version" ]
    inside "/$name/zerolag" run -q /work/audio.json | head -n 3 >&2
    stage "the wheel in an empty environment"
    python3 -m venv "$root/venv"
    "$root/venv/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links "$out" zerolag >&2
    [ "$("$root/venv/bin/zerolag" --version)" = "zerolag $version" ]
    "$root/venv/bin/python" -I -c 'import zerolag; print("module", zerolag.__version__)' >&2
    stage "the container"
    if command -v buildah >/dev/null 2>&1; then
        # In a directory of its own and without namespaces, so that it works as root of a container too.
        image() { buildah --storage-driver vfs --root "$root/images" --runroot "$root/run" "$@"; }
        image build --quiet --isolation chroot --tag zerolag "$out/container" >/dev/null
        inside=$(image from zerolag)
        [ "$(image run --isolation chroot "$inside" -- /usr/bin/zerolag --version)" = "zerolag $version" ]
        image rm --all >/dev/null
        echo "the container runs" >&2
    else
        echo "not tried: no buildah (Debian: buildah); its directory is $out/container" >&2
    fi
    rm -rf "$root"
fi
stage "in $out"
(cd "$out" && ls -l ./*.tar.gz ./*.whl ./*.json SHA256SUMS) >&2
