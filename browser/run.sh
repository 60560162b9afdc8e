#!/usr/bin/env bash
# Tests of pages in a real browser: types of the scripts, then Chromium without a window. Skipped with a reason where node, its
# packages or Chromium are missing. Usage, from the root of the repository: browser/run.sh PROGRAM [OPTION]; screenshots go to
# target/browser/shots. With --approve these become the approved ones, with --measure the timeline of long runs is measured instead,
# with --pictures those of docs/lab/pages are written, with --accessibility the rules of axe on them are listed.
set -euo pipefail
program=$1
option=${2:-}
work=$PWD/target/browser
skip() { echo "browser tests skipped: $*" >&2; exit 0; }
command -v node >/dev/null 2>&1 || skip "there is no node"
[ "$(node -p 'process.versions.node.split(".")[0] >= 18')" = true ] || skip "node is older than 18"
mkdir -p "$work"
if ! cmp -s browser/package.json "$work/package.json" || [ ! -d "$work/node_modules/playwright-core" ]; then
    command -v npm >/dev/null 2>&1 || skip "there is no npm"
    cp browser/package.json "$work/"
    (cd "$work" && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm install --silent --no-audit --no-fund --no-package-lock >&2) \
        || { rm -f "$work/package.json"; skip "the packages of browser/package.json cannot be installed"; }
fi
echo "== types of the pages' scripts" >&2
for config in crates/*/web/tsconfig.json; do
    "$work/node_modules/.bin/tsc" -p "$config"
done
chromium=
for name in chromium chromium-browser google-chrome; do
    chromium=$(command -v "$name" || true)
    [ -z "$chromium" ] || break
done
[ -n "$chromium" ] || skip "there is no Chromium (Debian: apt install chromium)"
echo "== pages in $chromium" >&2
rm -f "$work"/*.mjs
cp browser/*.mjs "$work/"
export ZEROLAG_PROGRAM CHROMIUM=$chromium ROOT=$PWD WORK=$work
ZEROLAG_PROGRAM=$(realpath "$program")
tests=("$work"/*.test.mjs)
case $option in
    --measure) exec node "$work/measure.mjs" ;;
    --pictures) exec node "$work/pictures.mjs" ;;
    --accessibility) exec node "$work/accessibility.mjs" ;;
    --approve) export APPROVE=1; tests=("$work/shots.test.mjs") ;;
    '') ;;
    # The name of one file of tests.
    *) tests=("$work/$option.test.mjs") ;;
esac
exec node --test --test-concurrency=1 "${tests[@]}"
