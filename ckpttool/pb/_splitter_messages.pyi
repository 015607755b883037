# Written by protos/compile.py: change the .proto files instead.

from collections.abc import Iterable
from typing import ClassVar

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as Messages
from google.protobuf.internal.containers import RepeatedScalarFieldContainer as Scalars
from google.protobuf.message import Message

class VersionDef(Message):
    splitter_version: int
    join_version: int
    @property
    def bad_consumers(self) -> Scalars[int]: ...
    def __init__(
        self,
        *,
        splitter_version: int = ...,
        join_version: int = ...,
        bad_consumers: Iterable[int] = ...,
    ) -> None: ...

class ChunkMetadata(Message):
    @property
    def version(self) -> VersionDef: ...
    @property
    def chunks(self) -> Messages[ChunkInfo]: ...
    @property
    def message(self) -> ChunkedMessage: ...
    def __init__(
        self,
        *,
        version: VersionDef | None = ...,
        chunks: Iterable[ChunkInfo] = ...,
        message: ChunkedMessage | None = ...,
    ) -> None: ...

class ChunkInfo(Message):
    UNSET: ClassVar[int]
    MESSAGE: ClassVar[int]
    BYTES: ClassVar[int]
    type: int
    size: int
    offset: int
    def __init__(self, *, type: int = ..., size: int = ..., offset: int = ...) -> None: ...

class ChunkedMessage(Message):
    chunk_index: int
    @property
    def chunked_fields(self) -> Messages[ChunkedField]: ...
    def __init__(
        self, *, chunk_index: int = ..., chunked_fields: Iterable[ChunkedField] = ...
    ) -> None: ...

class ChunkedField(Message):
    @property
    def field_tag(self) -> Messages[FieldIndex]: ...
    @property
    def message(self) -> ChunkedMessage: ...
    def __init__(
        self, *, field_tag: Iterable[FieldIndex] = ..., message: ChunkedMessage | None = ...
    ) -> None: ...

class FieldIndex(Message):
    class MapKey(Message):
        s: str
        boolean: bool
        ui32: int
        ui64: int
        i32: int
        i64: int
        def __init__(
            self,
            *,
            s: str = ...,
            boolean: bool = ...,
            ui32: int = ...,
            ui64: int = ...,
            i32: int = ...,
            i64: int = ...,
        ) -> None: ...

    field: int
    index: int
    @property
    def map_key(self) -> MapKey: ...
    def __init__(
        self, *, field: int = ..., map_key: MapKey | None = ..., index: int = ...
    ) -> None: ...
