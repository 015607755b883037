# Written by protos/compile.py: change the .proto files instead.

from collections.abc import Iterable

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as Messages
from google.protobuf.internal.containers import RepeatedScalarFieldContainer as Scalars
from google.protobuf.message import Message

class VersionDef(Message):
    producer: int
    min_consumer: int
    @property
    def bad_consumers(self) -> Scalars[int]: ...
    def __init__(
        self, *, producer: int = ..., min_consumer: int = ..., bad_consumers: Iterable[int] = ...
    ) -> None: ...

class SavedMetadata(Message):
    @property
    def nodes(self) -> Messages[SavedObject]: ...
    def __init__(self, *, nodes: Iterable[SavedObject] = ...) -> None: ...

class SavedObject(Message):
    node_id: int
    node_path: str
    identifier: str
    metadata: str
    @property
    def version(self) -> VersionDef: ...
    def __init__(
        self,
        *,
        node_id: int = ...,
        node_path: str = ...,
        identifier: str = ...,
        metadata: str = ...,
        version: VersionDef | None = ...,
    ) -> None: ...
