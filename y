#!/usr/bin/env bash
# One entry for everything that a developer does. Installs the pinned Rust toolchain if cargo is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

need_cargo() {
    if ! command -v cargo >/dev/null 2>&1 && [ -x "$HOME/.cargo/bin/cargo" ]; then
        PATH="$HOME/.cargo/bin:$PATH"
    fi
    if ! command -v cargo >/dev/null 2>&1; then
        echo "installing the Rust toolchain (rustup)" >&2
        if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && apt-get install -y rustup >&2; then
            :
        elif command -v curl >/dev/null 2>&1; then
            curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --default-toolchain none >&2
            PATH="$HOME/.cargo/bin:$PATH"
        else
            echo "no cargo, and no way to install it: see https://rustup.rs" >&2
            exit 1
        fi
    fi
    # Installs the toolchain that rust-toolchain.toml names, with its components and targets.
    if command -v rustup >/dev/null 2>&1; then
        rustup show active-toolchain >/dev/null 2>&1 || rustup toolchain install >&2
    fi
}

stage() { echo "== $*" >&2; }

# Builds the program if it is not up to date and sets `program`. With `--quiet` the first run would say nothing for minutes;
# without it every later run would begin with cargo's "Finished". So a first build shows cargo's progress, later builds show what
# is compiled, and a build that has nothing to do shows nothing. Everything goes to stderr: stdout belongs to the program.
build_program() {
    program=${CARGO_TARGET_DIR:-target}/release/zerolag
    if [ -x "$program" ]; then
        cargo build --release --bin zerolag 2>&1 | { grep --line-buffered -v ' Finished ' || true; } >&2
    else
        echo "compiling zerolag (2 to 3 minutes the first time)" >&2
        cargo build --release --bin zerolag
    fi
}

run_tests() {
    stage "format"; cargo fmt --all --check
    stage "lints"; cargo clippy --workspace --all-targets --quiet -- -D warnings
    stage "tests, specs and doc tests"; cargo test --workspace
    stage "a second kind of deadline server"
    RUSTFLAGS="--cfg zerolag_second_server" cargo test --quiet -p zerolag-core --target-dir target/second-server --test deadline_random
    stage "no_std"
    if rustup target list --installed 2>/dev/null | grep -q x86_64-unknown-none \
        || rustup target add x86_64-unknown-none >&2; then
        cargo build --quiet -p zerolag-model -p zerolag-core --target x86_64-unknown-none
    else
        echo "no_std build skipped: the target x86_64-unknown-none cannot be installed here" >&2
    fi
    stage "the library without the command line"
    if rustup target list --installed 2>/dev/null | grep -q wasm32-unknown-unknown \
        || rustup target add wasm32-unknown-unknown >&2; then
        cargo build --quiet -p zerolag --lib --no-default-features --target wasm32-unknown-unknown
    else
        echo "wasm32 build skipped: the target wasm32-unknown-unknown cannot be installed here; built for this host instead" >&2
        cargo build --quiet -p zerolag --lib --no-default-features
    fi
    stage "crates as they would be published"
    # Everything that they depend on has been built above, so no network is needed. Nothing is compiled again.
    cargo package --workspace --no-verify --allow-dirty --offline --quiet
    stage "the publication of the workspace, up to the upload"
    # It asks the registry what is there; without a network there is nothing to ask.
    local said
    if ! said=$(cargo publish --dry-run --workspace --no-verify --allow-dirty 2>&1); then
        if grep -qiE 'network failure|could not resolve|failed to (fetch|download|get|update)|spurious|timed out' <<<"$said"; then
            echo "dry run of the publication skipped, the registry cannot be reached: $(tail -n 1 <<<"$said")" >&2
        else
            echo "$said" >&2
            exit 1
        fi
    fi
    stage "traces without readers of recordings, as the runtime has them"
    cargo test --quiet -p zerolag-trace --no-default-features --lib
    if cargo tree --offline -p zerolag-runtime -e normal --prefix none | grep -E '^(flate2|lzma-rust2|ruzstd|prost|serde) '; then
        echo "zerolag-runtime depends on readers of recordings: see the features of crates/trace" >&2
        exit 1
    fi
    stage "docs"; RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --quiet
}

# The work that is profiled: every example, the tools and the specs as users run them, and without records workloads that are
# related to those of docs/lab/speed.md.
train() {
    local zerolag=$1/zerolag file workload
    for workload in "hogs 200" "w8 20" "edf8 20" "mixed16 20" "light64 1" "limits16 4" "idle64 1"; do
        # shellcheck disable=SC2086 # a name and a number
        "$1/examples/speed" $workload
    done
    for file in examples/*.toml examples/*.json; do
        "$zerolag" run -q "$file" -d 5s || [ $? = 99 ]
    done
    "$zerolag" rt-migrate-test -l 50 5 --cpus 4
    "$zerolag" timerlat hist -q -u -d 2s --cpus 8 --load build
    "$zerolag" cyclictest -q -t 4 -l 2000
    "$zerolag" spec specs
}

# The tools of the Python package in target/python/venv. Fails with a reason where they cannot be had.
python_tools() {
    venv=$PWD/target/python/venv
    if ! [ -x "$venv/bin/python" ]; then
        command -v python3 >/dev/null 2>&1 || { echo "there is no python3" >&2; return 1; }
        python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || { echo "python3 is older than 3.9" >&2; return 1; }
        python3 -m venv "$venv" >&2 || { rm -rf "$venv"; echo "python3 has no module venv (Debian: python3-venv)" >&2; return 1; }
    fi
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r python/requirements-test.txt >&2 \
        || { echo "the packages of python/requirements-test.txt cannot be installed" >&2; return 1; }
}

# Builds a wheel in target/python/dist; the arguments are maturin's.
wheel() {
    rm -rf target/python/dist
    "$venv/bin/maturin" build --quiet --manifest-path python/Cargo.toml --target-dir target/python/build --out target/python/dist "$@" >&2
}

# The only `unsafe` of the package: its tests, and again under valgrind, which sees what is used after it was freed, or never freed.
arrow_tests() {
    local run=(cargo test --quiet --manifest-path python/Cargo.toml --target-dir target/python/build -p zerolag-arrow)
    "${run[@]}"
    if command -v valgrind >/dev/null 2>&1; then
        CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --quiet --error-exitcode=1 --leak-check=full --errors-for-leak-kinds=definite" \
            "${run[@]}" --test reader
    else
        echo "not run under valgrind: there is none (Debian: valgrind)" >&2
    fi
}

# Installs the wheel as a user does, into an environment with nothing else in it, without an index, and uses it.
clean_install() {
    local clean=target/python/clean
    rm -rf "$clean"
    python3 -m venv "$clean"
    "$clean/bin/pip" install --quiet --disable-pip-version-check --no-index target/python/dist/*.whl >&2
    "$clean/bin/python" -I - <<'PYTHON' >&2
import sys, zerolag
assert not {"numpy", "pandas", "polars", "pyarrow", "optuna", "matplotlib"} & set(sys.modules)
result = zerolag.run({"task": {"a": {"loop": 3, "steps": [{"run": "1ms"}]}}}, seed=1)
assert result.ok and 3_000_000 <= result.tasks["run_ns"][0] < 3_100_000, result
for call in (lambda: zerolag.cheapest("a.toml", {"hz": [100]}, "x"), lambda: zerolag.sweep({"task": {"a": {"loop": 1, "steps": []}}}, {"hz": [100]}, figures=["a.run"], out="no")):
    try:
        call()
    except zerolag.InputError as error:
        assert "pip install" in str(error), error
    else:
        raise AssertionError("an extra is missing")
print(f"zerolag {zerolag.__version__}, alone in {sys.prefix}: {result!r}")
PYTHON
}

# The Python package: built, installed as a user would, tested. Without Python, or without a network for its tools, the reason is
# printed and nothing is tested.
python_tests() {
    stage "the tools of the Python package"
    python_tools || { echo "tests of the Python package skipped: see above" >&2; return 0; }
    stage "format and lints of the Python package"
    cargo fmt --check --manifest-path python/Cargo.toml
    cargo clippy --quiet --manifest-path python/Cargo.toml --target-dir target/python/build --workspace --all-targets -- -D warnings
    stage "the Arrow interface"
    arrow_tests
    stage "the wheel"
    wheel --profile dev
    "$venv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps target/python/dist/*.whl >&2
    stage "a clean environment"
    clean_install
    stage "tests of the Python package"
    # The JSON is compared with that of the program, where `./x test` has built it.
    local program=${CARGO_TARGET_DIR:-$PWD/target}/debug/zerolag
    if [ -z "${ZEROLAG_PROGRAM:-}" ] && [ "$("$program" --version 2>/dev/null)" = "zerolag $(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)" ]; then
        export ZEROLAG_PROGRAM=$program
    fi
    "$venv/bin/pytest" -c python/pyproject.toml -p no:cacheprovider -rs python/tests
    stage "types of the Python package"
    if "$venv/bin/pyright" --version >/dev/null 2>&1; then
        "$venv/bin/pyright" --pythonpath "$venv/bin/python" -p python
    else
        echo "types not checked: pyright cannot be started here (it needs Node, or a network to get it)" >&2
    fi
}

# The playground in target/playground: index.html for any static host or a disk, and the module by itself in engine/. With --quick it
# is compiled without the optimisations that take long, for tests.
playground() {
    local target=${CARGO_TARGET_DIR:-target} out=target/playground profile=wasm
    [ "${1:-}" != --quick ] || profile=wasm-quick
    rustup target list --installed 2>/dev/null | grep -q wasm32-unknown-unknown || rustup target add wasm32-unknown-unknown >&2 \
        || { echo "the target wasm32-unknown-unknown cannot be installed here" >&2; return 1; }
    stage "the simulator as WebAssembly"
    cargo build --quiet -p zerolag-wasm --target wasm32-unknown-unknown --profile "$profile"
    stage "the page"
    cargo run --quiet -p zerolag-wasm --features page --example playground -- "$out" "$target/wasm32-unknown-unknown/$profile/zerolag_wasm.wasm" examples
}

gallery() {
    build_program
    cat <<'HEAD'
# The gallery

The questions of the files in `examples/` and the answers of a run: the goals of a scenario's owner, which some miss until they are cured,
or the first tables of an rt-app file. The comment at the top of each file explains the question and names variations to try.
`crates/zerolag/tests/gallery.rs` runs them all; `./x gallery` writes this page.
HEAD
    local file title
    for file in examples/*.toml examples/*.json; do
        title=$(grep -m 1 -o '[A-Z].*' "$file")
        printf '\n## [%s](../../%s)\n\n%s\n\n```\n$ zerolag run %s\n' "${file#examples/}" "$file" "$title" "$file"
        case "$file" in
            # 99: the example hurts, and says how to cure it.
            *.toml) { "$program" run -q "$file" || [ $? = 99 ]; } 2>&1 >/dev/null | grep '^goal ' ;;
            *) "$program" run "$file" 2>/dev/null | sed -n '/^run time/,/^cpus/p' | sed '$d' | sed '$d' ;;
        esac
        echo '```'
    done
}

# The site: the pages of docs/ and the root, the specs, and the Rust documentation beside them. mdBook follows links only
# within one directory, so the pages are copied to one, with their places relative to each other kept.
build_book() {
    local version=0.5.4 book=target/book mdbook=target/tools/bin/mdbook area page title
    if ! "$mdbook" --version 2>/dev/null | grep -qF "$version"; then
        stage "compiling mdBook $version (about 3 minutes, once)"
        cargo install mdbook --version "$version" --locked --no-default-features --features search --root target/tools --target-dir target/tools/build
    fi
    stage "Rust documentation"
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
    stage "pages"
    rm -rf "$book/src" "$book/html"
    mkdir -p "$book/src"
    cp -r README.md ARCHITECTURE.md CONTRIBUTING.md GLOSSARY.md CHANGELOG.md docs specs examples "$book/src/"
    mkdir "$book/src/conformance"
    cp conformance/README.md "$book/src/conformance/"
    # mdBook writes a README.md as index.html and leaves links to it alone.
    find "$book/src" -name '*.md' -exec sed -i 's#\(](\([^)]*/\)\?\)README\.md#\1index.md#g' {} +
    {
        printf '# Rust documentation\n\n'
        for page in crates/*/Cargo.toml; do
            title=$(sed -n 's/^name = "\(.*\)"/\1/p' "$page" | head -n 1)
            printf '* [`%s`](rust/%s/index.html): %s\n' "$title" "${title//-/_}" "$(sed -n 's/^description = "\(.*\)"/\1/p' "$page")"
        done
    } >"$book/src/rust.md"
    {
        # Links of docs/SUMMARY.md begin in docs/, those of the site in the root.
        sed 's#](#](docs/#; s#](docs/\.\./#](#' docs/SUMMARY.md
        printf '* [Rust documentation](rust.md)\n\n# Specs\n\n* [How to read a spec](specs/README.md)\n'
        for area in specs/*/; do
            area=${area%/}
            printf '* [%s]()\n' "${area#specs/}"
            for page in "$area"/*.md; do
                printf '    * [%s](%s)\n' "$(head -n 1 "$page" | sed 's/^# //; s/[][]//g')" "$page"
            done
        done
    } >"$book/src/SUMMARY.md"
    rm "$book/src/docs/SUMMARY.md"
    cp book.toml "$book/"
    "$mdbook" build "$book" >&2
    cp -r "${CARGO_TARGET_DIR:-target}/doc" "$book/html/rust"
    echo "$book/html/index.html"
}

need_cargo
command=${1:-}
case "$command" in
    test) run_tests ;;
    python) python_tests ;;
    # Pages in a real browser; skipped with a reason where node or Chromium is missing. Options: browser/run.sh.
    browser)
        cargo build --quiet --bin zerolag
        exec browser/run.sh "${CARGO_TARGET_DIR:-target}/debug/zerolag" "${2:-}" ;;
    # The playground: the simulator as WebAssembly in one page.
    playground) playground "${2:-}" ;;
    wheel) python_tools; wheel --release; ls -l target/python/dist/*.whl >&2 ;;
    specs) shift; build_program; exec "$program" spec "$@" specs ;;
    # Writes the table that compares recorded kernels with simulations.
    conformance)
        build_program
        "$program" validate --quiet --markdown conformance >docs/lab/conformance.md.new || [ $? = 99 ]
        mv docs/lab/conformance.md.new docs/lab/conformance.md ;;
    # Writes the page of the examples: their questions and the answers of a run.
    gallery) gallery >docs/guide/gallery.md.new; mv docs/guide/gallery.md.new docs/guide/gallery.md ;;
    # The program without the last passes over everything: after a change of one line it is there in a tenth of the time.
    quick)
        shift
        cargo build --profile quick --bin zerolag 2>&1 | { grep --line-buffered -v ' Finished ' || true; } >&2
        exec "${CARGO_TARGET_DIR:-target}/quick/zerolag" "$@" ;;
    # Builds the site of the documentation in target/book/html.
    docs) build_book ;;
    # New random cases instead of those that `test` draws on every run.
    fuzz)
        export ZEROLAG_FUZZ=${2:-20}
        PROPTEST_RNG_SEED=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
        export PROPTEST_RNG_SEED
        stage "seed $PROPTEST_RNG_SEED, $ZEROLAG_FUZZ times the usual number of cases"
        exec cargo test --workspace --tests --exclude zerolag ;;
    # Guided by coverage: builds the targets with libFuzzer and runs one of them for SECONDS, in the idle class.
    fuzz-long)
        target=${2:?the name of a target; ./x fuzz-long help lists them}
        seconds=${3:-3600}
        flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
        flags="$flags -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
        host=$(rustc -vV | sed -n 's/^host: //p')
        RUSTFLAGS="$flags" cargo build --release --quiet --manifest-path fuzz/Cargo.toml --target-dir target/fuzz --target "$host"
        program=target/fuzz/$host/release/zerolag-fuzz
        [ "$target" != help ] || exec "$program"
        mkdir -p "target/fuzz/seeds/$target" "target/fuzz/corpus/$target"
        ZEROLAG_FUZZ_TARGET=$target ZEROLAG_FUZZ_SEEDS=target/fuzz/seeds/$target "$program"
        ZEROLAG_FUZZ_TARGET=$target exec chrt -i 0 "$program" -max_total_time="$seconds" -max_len=16000 -timeout=300 \
            -print_final_stats=1 -artifact_prefix="target/fuzz/$target-" "target/fuzz/corpus/$target" "target/fuzz/seeds/$target" ;;
    # The runtime under Miri, with a nightly toolchain: state machines, and all of it with its threads.
    miri)
        if ! rustup component add --toolchain nightly miri rust-src >&2 \
            && ! rustup toolchain install nightly --profile minimal --component miri --component rust-src >&2; then
            echo "skipped: no nightly toolchain with miri and rust-src can be installed here" >&2
            exit 0
        fi
        export MIRIFLAGS=-Zmiri-disable-isolation
        run=(cargo +nightly miri test --target-dir target/sanitize -p zerolag-runtime)
        "${run[@]}" --lib -- meter:: patience:: spare:: confine:: latency::
        exec "${run[@]}" --test small ;;
    bench)
        shift
        case ${1:-} in
            --check) exec scripts/instructions.sh ;;
            --bless) exec scripts/instructions.sh --bless ;;
            *) exec cargo bench --workspace "$@" ;;
        esac ;;
    # What of the public interface a change removes or alters, next to a commit: by default the last release, by its tag or, in a
    # copy of the repository without tags, by scripts/semver-base.
    semver)
        version=0.51.0 checker=target/tools/bin/cargo-semver-checks
        base=${2:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || grep -v '^#' scripts/semver-base)}
        git cat-file -e "$base^{commit}" 2>/dev/null || { echo "there is no commit $base here (a shallow clone?)" >&2; exit 1; }
        # A version that is still the same is one of its line (0.2.x): it may add to the interface.
        same=()
        cmp -s <(git show "$base:Cargo.toml" | grep -m 1 '^version') <(grep -m 1 '^version' Cargo.toml) && same=(--release-type minor)
        if ! "$checker" semver-checks --version 2>/dev/null | grep -qF "$version"; then
            stage "compiling cargo-semver-checks $version (about 5 minutes, once)"
            cargo install cargo-semver-checks --version "$version" --locked --root target/tools --target-dir target/tools/build
        fi
        exec "$checker" semver-checks --workspace --baseline-rev "$base" "${same[@]}" ;;
    # Profile-guided optimisation: compiles the program, profiles it at work, compiles it again (docs/lab/speed.md).
    release)
        rustup component list --installed 2>/dev/null | grep -q '^llvm-tools' || rustup component add llvm-tools >&2
        profdata=$(find "$(rustc --print sysroot)" -name llvm-profdata -type f | head -n 1)
        [ -n "$profdata" ] || { echo "no llvm-profdata: rustup component add llvm-tools" >&2; exit 1; }
        here=$PWD/target/pgo
        build=(cargo build --release --quiet -p zerolag -p zerolag-sim --bin zerolag --example speed)
        stage "build with profiling"
        rm -rf "$here/seen" "$here"/seen-*.profdata
        RUSTFLAGS="-Cprofile-generate=$here/seen" "${build[@]}" --target-dir "$here/watched"
        stage "training"
        train "$here/watched/release" >"$here/training.log" 2>&1
        # The file is named after its content: cargo rebuilds when a flag changes, but not when a file that a flag names does.
        seen=$here/seen-$(cat "$here"/seen/* | sha256sum | cut -c1-12).profdata
        "$profdata" merge -o "$seen" "$here/seen"
        stage "build"
        RUSTFLAGS="-Cprofile-use=$seen" "${build[@]}" --target-dir "$here"
        ls -l "$here/release/zerolag" >&2 ;;
    # Libraries that are written for tokio, in tasks of the runtime.
    libraries)
        if ! why=$(cargo fetch --locked --manifest-path libraries/Cargo.toml 2>&1); then
            echo "$why" >&2
            [[ $why != *"lock file"* ]] || exit 1
            echo "skipped: the crates of libraries/Cargo.lock cannot be fetched here" >&2
            exit 0
        fi
        command -v cc >/dev/null || { echo "skipped: no C compiler, which SQLite needs" >&2; exit 0; }
        exec cargo test --locked --manifest-path libraries/Cargo.toml --target-dir target/libraries ;;
    "")
        cat <<'HELP'
./x ARGS...          build zerolag and run it: ./x run examples/audio.json
./x quick ARGS...    the same from a build for those who change the code: incremental, without link-time optimisation
./x test             run everything that a change must pass
./x python           build, install and test the Python package (docs/guide/python.md)
./x wheel            build an optimised wheel in target/python/dist
./x browser          test the HTML pages in Chromium
./x playground       build the playground in target/playground: one page for any static host
./x specs [--bless]  check the specs, or rewrite their timelines
./x bench            run the benchmarks; --check compares instructions with the record, --bless records them
./x release          build target/pgo/release/zerolag with profile-guided optimisation: a quarter faster
./x semver [COMMIT]  compare the public interface with the last release, or a commit: what a new version may not break
./x docs             build the site of the documentation: target/book/html/index.html
./x conformance      write docs/lab/conformance.md: recorded kernels compared with simulations
./x gallery          write docs/guide/gallery.md: the examples and their answers
./x miri             run the runtime under Miri (2 minutes to build, 1 to run)
./x libraries        reqwest, tonic and sqlx in tasks of the runtime (5 minutes to build)
./x fuzz [TIMES]     run the random tests with a new seed and TIMES as many cases (default 20)
./x fuzz-long TARGET [SECONDS]
                     run one target under libFuzzer, guided by coverage (docs/guide/fuzzing.md)
HELP
        ;;
    *) build_program; exec "$program" "$@" ;;
esac
