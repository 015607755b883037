# Written by protos/compile.py: change the .proto files instead.

from collections.abc import Iterable, Mapping
from typing import ClassVar

from google.protobuf.internal.containers import MessageMap, ScalarMap
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as Messages
from google.protobuf.internal.containers import RepeatedScalarFieldContainer as Scalars
from google.protobuf.message import Message

from ckpttool.pb._google_messages import Any
from ckpttool.pb._graph_messages import GraphDef
from ckpttool.pb._object_messages import SavedObjectGraph, TypeSpecProto
from ckpttool.pb._op_messages import OpList
from ckpttool.pb._tensor_messages import TensorProto, TensorShapeProto, VersionDef

class CompositeTensorVariantMetadata(Message):
    @property
    def type_spec_proto(self) -> TypeSpecProto: ...
    def __init__(self, *, type_spec_proto: TypeSpecProto | None = ...) -> None: ...

class FingerprintDef(Message):
    saved_model_checksum: int
    graph_def_program_hash: int
    signature_def_hash: int
    saved_object_graph_hash: int
    checkpoint_hash: int
    uuid: str
    @property
    def version(self) -> VersionDef: ...
    def __init__(
        self,
        *,
        saved_model_checksum: int = ...,
        graph_def_program_hash: int = ...,
        signature_def_hash: int = ...,
        saved_object_graph_hash: int = ...,
        checkpoint_hash: int = ...,
        version: VersionDef | None = ...,
        uuid: str = ...,
    ) -> None: ...

class SaverDef(Message):
    LEGACY: ClassVar[int]
    V1: ClassVar[int]
    V2: ClassVar[int]
    filename_tensor_name: str
    save_tensor_name: str
    restore_op_name: str
    max_to_keep: int
    sharded: bool
    keep_checkpoint_every_n_hours: float
    version: int
    def __init__(
        self,
        *,
        filename_tensor_name: str = ...,
        save_tensor_name: str = ...,
        restore_op_name: str = ...,
        max_to_keep: int = ...,
        sharded: bool = ...,
        keep_checkpoint_every_n_hours: float = ...,
        version: int = ...,
    ) -> None: ...

class MetaGraphDef(Message):
    class MetaInfoDef(Message):
        meta_graph_version: str
        tensorflow_version: str
        tensorflow_git_version: str
        stripped_default_attrs: bool
        @property
        def stripped_op_list(self) -> OpList: ...
        @property
        def any_info(self) -> Any: ...
        @property
        def tags(self) -> Scalars[str]: ...
        @property
        def function_aliases(self) -> ScalarMap[str, str]: ...
        def __init__(
            self,
            *,
            meta_graph_version: str = ...,
            stripped_op_list: OpList | None = ...,
            any_info: Any | None = ...,
            tags: Iterable[str] = ...,
            tensorflow_version: str = ...,
            tensorflow_git_version: str = ...,
            stripped_default_attrs: bool = ...,
            function_aliases: Mapping[str, str] = ...,
        ) -> None: ...

    @property
    def meta_info_def(self) -> MetaInfoDef: ...
    @property
    def graph_def(self) -> GraphDef: ...
    @property
    def saver_def(self) -> SaverDef: ...
    @property
    def collection_def(self) -> MessageMap[str, CollectionDef]: ...
    @property
    def signature_def(self) -> MessageMap[str, SignatureDef]: ...
    @property
    def asset_file_def(self) -> Messages[AssetFileDef]: ...
    @property
    def object_graph_def(self) -> SavedObjectGraph: ...
    def __init__(
        self,
        *,
        meta_info_def: MetaInfoDef | None = ...,
        graph_def: GraphDef | None = ...,
        saver_def: SaverDef | None = ...,
        collection_def: Mapping[str, CollectionDef] = ...,
        signature_def: Mapping[str, SignatureDef] = ...,
        asset_file_def: Iterable[AssetFileDef] = ...,
        object_graph_def: SavedObjectGraph | None = ...,
    ) -> None: ...

class CollectionDef(Message):
    class NodeList(Message):
        @property
        def value(self) -> Scalars[str]: ...
        def __init__(self, *, value: Iterable[str] = ...) -> None: ...

    class BytesList(Message):
        @property
        def value(self) -> Scalars[bytes]: ...
        def __init__(self, *, value: Iterable[bytes] = ...) -> None: ...

    class Int64List(Message):
        @property
        def value(self) -> Scalars[int]: ...
        def __init__(self, *, value: Iterable[int] = ...) -> None: ...

    class FloatList(Message):
        @property
        def value(self) -> Scalars[float]: ...
        def __init__(self, *, value: Iterable[float] = ...) -> None: ...

    class AnyList(Message):
        @property
        def value(self) -> Messages[Any]: ...
        def __init__(self, *, value: Iterable[Any] = ...) -> None: ...

    @property
    def node_list(self) -> NodeList: ...
    @property
    def bytes_list(self) -> BytesList: ...
    @property
    def int64_list(self) -> Int64List: ...
    @property
    def float_list(self) -> FloatList: ...
    @property
    def any_list(self) -> AnyList: ...
    def __init__(
        self,
        *,
        node_list: NodeList | None = ...,
        bytes_list: BytesList | None = ...,
        int64_list: Int64List | None = ...,
        float_list: FloatList | None = ...,
        any_list: AnyList | None = ...,
    ) -> None: ...

class TensorInfo(Message):
    class CooSparse(Message):
        values_tensor_name: str
        indices_tensor_name: str
        dense_shape_tensor_name: str
        def __init__(
            self,
            *,
            values_tensor_name: str = ...,
            indices_tensor_name: str = ...,
            dense_shape_tensor_name: str = ...,
        ) -> None: ...

    class CompositeTensor(Message):
        @property
        def type_spec(self) -> TypeSpecProto: ...
        @property
        def components(self) -> Messages[TensorInfo]: ...
        def __init__(
            self, *, type_spec: TypeSpecProto | None = ..., components: Iterable[TensorInfo] = ...
        ) -> None: ...

    name: str
    dtype: int
    @property
    def tensor_shape(self) -> TensorShapeProto: ...
    @property
    def coo_sparse(self) -> CooSparse: ...
    @property
    def composite_tensor(self) -> CompositeTensor: ...
    def __init__(
        self,
        *,
        name: str = ...,
        dtype: int = ...,
        tensor_shape: TensorShapeProto | None = ...,
        coo_sparse: CooSparse | None = ...,
        composite_tensor: CompositeTensor | None = ...,
    ) -> None: ...

class SignatureDef(Message):
    method_name: str
    @property
    def inputs(self) -> MessageMap[str, TensorInfo]: ...
    @property
    def outputs(self) -> MessageMap[str, TensorInfo]: ...
    @property
    def defaults(self) -> MessageMap[str, TensorProto]: ...
    def __init__(
        self,
        *,
        inputs: Mapping[str, TensorInfo] = ...,
        outputs: Mapping[str, TensorInfo] = ...,
        method_name: str = ...,
        defaults: Mapping[str, TensorProto] = ...,
    ) -> None: ...

class AssetFileDef(Message):
    filename: str
    @property
    def tensor_info(self) -> TensorInfo: ...
    def __init__(self, *, tensor_info: TensorInfo | None = ..., filename: str = ...) -> None: ...

class NamedTensorProto(Message):
    name: str
    @property
    def tensor(self) -> TensorProto: ...
    def __init__(self, *, name: str = ..., tensor: TensorProto | None = ...) -> None: ...

class SavedModel(Message):
    saved_model_schema_version: int
    @property
    def meta_graphs(self) -> Messages[MetaGraphDef]: ...
    def __init__(
        self, *, saved_model_schema_version: int = ..., meta_graphs: Iterable[MetaGraphDef] = ...
    ) -> None: ...
