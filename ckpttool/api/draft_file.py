"""The file for a drafted map."""

from __future__ import annotations

import os
from typing import TextIO

from ckpttool.query.diff.renames import save_map
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.surgery.maps.torch_draft import MapDraft


def save_draft(draft: MapDraft, place: StrPath | TextIO, *, force: bool) -> tuple[str, ...]:
    """Write a draft to a file, or to one that is open; return what there is to say of it.

    Raises:
        DestinationError: the file exists.
        FileAccessError: it cannot be written.
    """
    name = "map"
    if isinstance(place, (str, os.PathLike)):
        name = path_text(place)
        save_map(draft.text, name, force=force)
    else:
        place.write(draft.text)
    first, *more = draft.notes
    return (f"{name}: {first}", *more)
