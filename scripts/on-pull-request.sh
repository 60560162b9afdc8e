#!/usr/bin/env bash
# Simulates scenarios as they are and as they were at a commit, and writes a summary in Markdown and a page of each. It is what action.yml
# calls, and runs anywhere. Exit codes: 99 if a goal is missed, 2 for wrong input, as the program's.
#
# $ZEROLAG is the program, $SCENARIOS are files or patterns, $BASE is the commit (none: nothing is compared), $KERNELS are kernels to compare
# each scenario under, $OUT is the directory of the pages, $GITHUB_STEP_SUMMARY the file of the summary (none: stdout).
set -euo pipefail
zerolag=${ZEROLAG:?the program}
out=${OUT:-zerolag-pages}
summary=${GITHUB_STEP_SUMMARY:-/dev/stdout}
shopt -s globstar nullglob
# shellcheck disable=SC2206 # patterns, separated by blanks
files=(${SCENARIOS:?files or patterns})
existing=()
for file in "${files[@]}"; do
    # A name without a pattern stays as it is, whether the file is there or not.
    [ -f "$file" ] || { echo "$file: no such file" >&2; exit 2; }
    existing+=("$file")
done
[ ${#existing[@]} -gt 0 ] || { echo "no file matches $SCENARIOS" >&2; exit 2; }
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints the verdicts of a file's goals; sets `code` to the program's exit code.
goals() {
    code=0
    "$zerolag" run -q "$@" >"$work/stdout" 2>"$work/stderr" || code=$?
    case $code in
        0 | 99) grep '^goal ' "$work/stderr" || true ;;
        *) cat "$work/stderr" >&2; exit 2 ;;
    esac
}

missed=0
for file in "${existing[@]}"; do
    page=${file//\//-}
    page=$out/${page%.*}
    goals "$file" --html "$page.html" >"$work/now"
    [ $code = 0 ] || missed=$((missed + 1))
    {
        printf '### `%s`: %s\n\n' "$file" "$([ $code = 0 ] && echo 'goals are met' || echo '**a goal is missed**')"
        if [ ! -s "$work/now" ]; then
            echo 'It has no goals.'
        elif [ -n "${BASE:-}" ] && git show "$BASE:$file" >"$work/before.${file##*.}" 2>/dev/null; then
            goals "$work/before.${file##*.}" >"$work/before"
            if cmp -s "$work/before" "$work/now"; then
                printf '```\n'; cat "$work/now"; printf '```\nAs before.\n'
            else
                printf '```diff\n'; sed 's/^/- /' "$work/before"; sed 's/^/+ /' "$work/now"; printf '```\n'
            fi
        else
            printf '```\n'; cat "$work/now"; printf '```\n'
        fi
        if [ -n "${KERNELS:-}" ]; then
            # shellcheck disable=SC2086,SC2046 # kernels, separated by blanks
            set -- $(printf -- '--kernel %s ' $KERNELS)
            printf '\n```\n'
            "$zerolag" compare -q "$file" "$@" --html "$page-kernels.html" || [ $? = 99 ]
            printf '```\n'
        fi
        echo
    } >>"$summary"
done
[ -z "${GITHUB_OUTPUT:-}" ] || echo "missed=$missed" >>"$GITHUB_OUTPUT"
[ $missed = 0 ] || exit 99
