"""The command `ckpt`.

main         the entry point and the table of commands
options      what commands share: settings, arguments, options, their order
failures     exit codes; the only place where errors are caught
completion   shell completion
writing      what the commands that write checkpoints share
ls, show, diff, check, verify           a module per command, named like it
rename, prune, convert_legacy           those that write checkpoints
export_meta_json                        the one for graphs
"""
