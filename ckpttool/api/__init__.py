"""What `ckpt` does, as functions: one for each command that answers or writes.

Each takes what the command takes, and returns an answer whose `to_dict()` is the command's JSON and
whose `str()` is its table. The package `ckpttool` offers them by their names.

open              an open checkpoint, its tensors and entries
diff              what changed between two checkpoints
diff_series       how tensors change through the checkpoints of a folder
match             whether a checkpoint loads into a program, and why not
draw              a picture of the objects of a checkpoint
report            a page on a checkpoint
verify            whether checkpoints are sound
check             a checkpoint against a lock
rename            a checkpoint with other names
edit              a checkpoint with other values
average           the mean of several checkpoints
prune             a checkpoint with fewer tensors
convert_legacy    checkpoints and exports of old forms brought up to date
gc                the checkpoints of a folder that a manager would delete
export            tensors as files of other formats
import_checkpoint  a checkpoint made of a file of another program
export_meta_json  a MetaGraph as JSON, text or bytes
transfer          what exports and imports have in common
draft_file        a drafted map as a file
outcome           what became of a checkpoint
answer            what all answers have in common
"""
