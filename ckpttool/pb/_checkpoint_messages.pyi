# Written by protos/compile.py: change the .proto files instead.

from collections.abc import Iterable
from typing import ClassVar

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as Messages
from google.protobuf.internal.containers import RepeatedScalarFieldContainer as Scalars
from google.protobuf.message import Message

from ckpttool.pb._google_messages import BoolValue
from ckpttool.pb._tensor_messages import TensorProto, TensorShapeProto, TensorSliceProto, VersionDef

class TrackableObjectGraph(Message):
    class TrackableObject(Message):
        class ObjectReference(Message):
            node_id: int
            local_name: str
            def __init__(self, *, node_id: int = ..., local_name: str = ...) -> None: ...

        class SerializedTensor(Message):
            name: str
            full_name: str
            checkpoint_key: str
            optional_restore: bool
            def __init__(
                self,
                *,
                name: str = ...,
                full_name: str = ...,
                checkpoint_key: str = ...,
                optional_restore: bool = ...,
            ) -> None: ...

        class SlotVariableReference(Message):
            original_variable_node_id: int
            slot_name: str
            slot_variable_node_id: int
            def __init__(
                self,
                *,
                original_variable_node_id: int = ...,
                slot_name: str = ...,
                slot_variable_node_id: int = ...,
            ) -> None: ...

        @property
        def children(self) -> Messages[ObjectReference]: ...
        @property
        def attributes(self) -> Messages[SerializedTensor]: ...
        @property
        def slot_variables(self) -> Messages[SlotVariableReference]: ...
        @property
        def registered_saver(self) -> RegisteredSaver: ...
        @property
        def has_checkpoint_values(self) -> BoolValue: ...
        def __init__(
            self,
            *,
            children: Iterable[ObjectReference] = ...,
            attributes: Iterable[SerializedTensor] = ...,
            slot_variables: Iterable[SlotVariableReference] = ...,
            registered_saver: RegisteredSaver | None = ...,
            has_checkpoint_values: BoolValue | None = ...,
        ) -> None: ...

    @property
    def nodes(self) -> Messages[TrackableObject]: ...
    def __init__(self, *, nodes: Iterable[TrackableObject] = ...) -> None: ...

class RegisteredSaver(Message):
    name: str
    object_name: str
    def __init__(self, *, name: str = ..., object_name: str = ...) -> None: ...

class BundleHeaderProto(Message):
    LITTLE: ClassVar[int]
    BIG: ClassVar[int]
    num_shards: int
    endianness: int
    @property
    def version(self) -> VersionDef: ...
    def __init__(
        self, *, num_shards: int = ..., endianness: int = ..., version: VersionDef | None = ...
    ) -> None: ...

class BundleEntryProto(Message):
    dtype: int
    shard_id: int
    offset: int
    size: int
    crc32c: int
    @property
    def shape(self) -> TensorShapeProto: ...
    @property
    def slices(self) -> Messages[TensorSliceProto]: ...
    def __init__(
        self,
        *,
        dtype: int = ...,
        shape: TensorShapeProto | None = ...,
        shard_id: int = ...,
        offset: int = ...,
        size: int = ...,
        crc32c: int = ...,
        slices: Iterable[TensorSliceProto] = ...,
    ) -> None: ...

class SavedSliceMeta(Message):
    name: str
    type: int
    @property
    def shape(self) -> TensorShapeProto: ...
    @property
    def slice(self) -> Messages[TensorSliceProto]: ...
    def __init__(
        self,
        *,
        name: str = ...,
        shape: TensorShapeProto | None = ...,
        type: int = ...,
        slice: Iterable[TensorSliceProto] = ...,
    ) -> None: ...

class SavedTensorSliceMeta(Message):
    @property
    def tensor(self) -> Messages[SavedSliceMeta]: ...
    @property
    def versions(self) -> VersionDef: ...
    def __init__(
        self, *, tensor: Iterable[SavedSliceMeta] = ..., versions: VersionDef | None = ...
    ) -> None: ...

class SavedSlice(Message):
    name: str
    @property
    def slice(self) -> TensorSliceProto: ...
    @property
    def data(self) -> TensorProto: ...
    def __init__(
        self,
        *,
        name: str = ...,
        slice: TensorSliceProto | None = ...,
        data: TensorProto | None = ...,
    ) -> None: ...

class SavedTensorSlices(Message):
    @property
    def meta(self) -> SavedTensorSliceMeta: ...
    @property
    def data(self) -> SavedSlice: ...
    def __init__(
        self, *, meta: SavedTensorSliceMeta | None = ..., data: SavedSlice | None = ...
    ) -> None: ...

class CheckpointState(Message):
    model_checkpoint_path: str
    last_preserved_timestamp: float
    @property
    def all_model_checkpoint_paths(self) -> Scalars[str]: ...
    @property
    def all_model_checkpoint_timestamps(self) -> Scalars[float]: ...
    def __init__(
        self,
        *,
        model_checkpoint_path: str = ...,
        all_model_checkpoint_paths: Iterable[str] = ...,
        all_model_checkpoint_timestamps: Iterable[float] = ...,
        last_preserved_timestamp: float = ...,
    ) -> None: ...
