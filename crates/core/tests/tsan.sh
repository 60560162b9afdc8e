#!/bin/sh
# Runs the threaded host (threads.rs) under ThreadSanitizer. Needs a nightly compiler with its sources, because the
# standard library must be built with the sanitizer too:
#     rustup toolchain install nightly --component rust-src
# Without one it says so and succeeds: there is nothing to run it with.
set -eu
cd "$(dirname "$0")/../../.."
host=$(rustc -vV | sed -n 's/^host: //p')
if ! sysroot=$(rustc +nightly --print sysroot 2>/dev/null); then
    echo "skipped: no nightly toolchain"
    exit 0
fi
if [ ! -d "$sysroot/lib/rustlib/src/rust/library" ]; then
    echo "skipped: the nightly toolchain has no rust-src"
    exit 0
fi
export RUSTFLAGS="-Zsanitizer=thread"
exec cargo +nightly test -Zbuild-std --target "$host" -p zerolag-core --test threads "$@"
