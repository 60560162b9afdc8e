# Completes BIN: source <(BIN completions bash)
_NAME() {
    local line="${COMP_LINE:0:COMP_POINT}" IFS=$' \t\n' words answers typed
    # Bash has split the line at = and : too; the program wants whole words.
    read -ra words <<< "$line"
    case "$line" in *[[:space:]]) words+=("") ;; esac
    typed="${words[${#words[@]}-1]}"
    IFS=$'\013'
    answers=$(_CLAP_IFS="$IFS" _CLAP_COMPLETE_INDEX=$((${#words[@]} - 1)) ASKS=bash PROGRAM -- "${words[@]}") || return
    COMPREPLY=($answers)
    [[ "${COMPREPLY[*]}" =~ [=/.]$ ]] || compopt +o nospace 2> /dev/null
    # It replaces only what follows the last of these signs.
    local sign
    for sign in '=' ':'; do
        case "$COMP_WORDBREAKS" in
        *$sign*) case "$typed" in *$sign*) COMPREPLY=("${COMPREPLY[@]#"${typed%"$sign"*}$sign"}") ;; esac ;;
        esac
    done
}
complete -o nospace -o bashdefault -o default -o nosort -F _NAME BIN 2> /dev/null ||
    complete -o nospace -o bashdefault -o default -F _NAME BIN
