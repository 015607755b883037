# Completion of ckpt in bash. Source this file, or install it as "ckpt" in the folder where
# bash-completion looks for completions.

_ckpt_completion() {
    local candidate
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("${candidate}")
    done < <(
        _CKPT_COMPLETE=bash_complete _CKPT_LINE="${COMP_LINE:0:COMP_POINT}" \
            _CKPT_WORDBREAKS="${COMP_WORDBREAKS}" "$1" 2>/dev/null
    )
    # A folder or scope goes on; only a whole word gets a space.
    if [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == */ ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

complete -o nosort -F _ckpt_completion ckpt 2>/dev/null || complete -F _ckpt_completion ckpt
