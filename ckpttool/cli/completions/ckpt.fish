# Completion of ckpt in fish. Put this file into a folder of $fish_complete_path.

function __ckpt_candidates
    set -l line (commandline -cp)
    _CKPT_COMPLETE=fish_complete _CKPT_LINE="$line" ckpt 2>/dev/null
end

complete --command ckpt --no-files --arguments '(__ckpt_candidates)'
