"""The command `ckpt`.

main         the entry point and the table of commands
options      shared settings, arguments and options, and their order
failures     exit codes; the only place where errors are caught
pager        answers that are longer than the screen
completion   shell completion
writing      shared by the commands that write checkpoints
ls, show, diff, match, check, verify    a module per command, named like it
rename, prune, edit, average, convert_legacy  those that write checkpoints
gc                                      the one that deletes checkpoints
report                                  the one that writes a page
export                                  the one that writes files of other formats
import_checkpoint                       the one that reads them
export_meta_json                        the one for graphs
help, completion_script                 `ckpt help` and `ckpt completion`
"""
