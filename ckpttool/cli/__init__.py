"""The command `ckpt`.

main         the entry point and the table of commands
options      what commands share: settings, arguments, options, their order
failures     exit codes; the only place where errors are caught
completion   shell completion
ls, show     a module per command, named like it
"""
