# Written by protos/compile.py: change the .proto files instead.

from collections.abc import Iterable

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as Messages
from google.protobuf.internal.containers import RepeatedScalarFieldContainer as Scalars
from google.protobuf.message import Message

class TensorShapeProto(Message):
    class Dim(Message):
        size: int
        name: str
        def __init__(self, *, size: int = ..., name: str = ...) -> None: ...

    unknown_rank: bool
    @property
    def dim(self) -> Messages[Dim]: ...
    def __init__(self, *, dim: Iterable[Dim] = ..., unknown_rank: bool = ...) -> None: ...

class SerializedDType(Message):
    datatype: int
    def __init__(self, *, datatype: int = ...) -> None: ...

class ResourceHandleProto(Message):
    class DtypeAndShape(Message):
        dtype: int
        @property
        def shape(self) -> TensorShapeProto: ...
        def __init__(self, *, dtype: int = ..., shape: TensorShapeProto | None = ...) -> None: ...

    device: str
    container: str
    name: str
    hash_code: int
    maybe_type_name: str
    @property
    def dtypes_and_shapes(self) -> Messages[DtypeAndShape]: ...
    def __init__(
        self,
        *,
        device: str = ...,
        container: str = ...,
        name: str = ...,
        hash_code: int = ...,
        maybe_type_name: str = ...,
        dtypes_and_shapes: Iterable[DtypeAndShape] = ...,
    ) -> None: ...

class TensorProto(Message):
    dtype: int
    version_number: int
    tensor_content: bytes
    float8_val: bytes
    @property
    def tensor_shape(self) -> TensorShapeProto: ...
    @property
    def float_val(self) -> Scalars[float]: ...
    @property
    def double_val(self) -> Scalars[float]: ...
    @property
    def int_val(self) -> Scalars[int]: ...
    @property
    def string_val(self) -> Scalars[bytes]: ...
    @property
    def scomplex_val(self) -> Scalars[float]: ...
    @property
    def int64_val(self) -> Scalars[int]: ...
    @property
    def bool_val(self) -> Scalars[bool]: ...
    @property
    def dcomplex_val(self) -> Scalars[float]: ...
    @property
    def half_val(self) -> Scalars[int]: ...
    @property
    def resource_handle_val(self) -> Messages[ResourceHandleProto]: ...
    @property
    def variant_val(self) -> Messages[VariantTensorDataProto]: ...
    @property
    def uint32_val(self) -> Scalars[int]: ...
    @property
    def uint64_val(self) -> Scalars[int]: ...
    def __init__(
        self,
        *,
        dtype: int = ...,
        tensor_shape: TensorShapeProto | None = ...,
        version_number: int = ...,
        tensor_content: bytes = ...,
        float_val: Iterable[float] = ...,
        double_val: Iterable[float] = ...,
        int_val: Iterable[int] = ...,
        string_val: Iterable[bytes] = ...,
        scomplex_val: Iterable[float] = ...,
        int64_val: Iterable[int] = ...,
        bool_val: Iterable[bool] = ...,
        dcomplex_val: Iterable[float] = ...,
        half_val: Iterable[int] = ...,
        resource_handle_val: Iterable[ResourceHandleProto] = ...,
        variant_val: Iterable[VariantTensorDataProto] = ...,
        uint32_val: Iterable[int] = ...,
        uint64_val: Iterable[int] = ...,
        float8_val: bytes = ...,
    ) -> None: ...

class VariantTensorDataProto(Message):
    type_name: str
    metadata: bytes
    @property
    def tensors(self) -> Messages[TensorProto]: ...
    def __init__(
        self, *, type_name: str = ..., metadata: bytes = ..., tensors: Iterable[TensorProto] = ...
    ) -> None: ...

class CompressedComponentMetadata(Message):
    dtype: int
    @property
    def tensor_shape(self) -> TensorShapeProto: ...
    @property
    def uncompressed_bytes(self) -> Scalars[int]: ...
    def __init__(
        self,
        *,
        dtype: int = ...,
        tensor_shape: TensorShapeProto | None = ...,
        uncompressed_bytes: Iterable[int] = ...,
    ) -> None: ...

class CompressedElement(Message):
    data: bytes
    version: int
    @property
    def component_metadata(self) -> Messages[CompressedComponentMetadata]: ...
    def __init__(
        self,
        *,
        data: bytes = ...,
        component_metadata: Iterable[CompressedComponentMetadata] = ...,
        version: int = ...,
    ) -> None: ...

class UncompressedElement(Message):
    @property
    def components(self) -> Messages[TensorProto]: ...
    def __init__(self, *, components: Iterable[TensorProto] = ...) -> None: ...

class VersionDef(Message):
    producer: int
    min_consumer: int
    @property
    def bad_consumers(self) -> Scalars[int]: ...
    def __init__(
        self, *, producer: int = ..., min_consumer: int = ..., bad_consumers: Iterable[int] = ...
    ) -> None: ...

class TensorSliceProto(Message):
    class Extent(Message):
        start: int
        length: int
        def __init__(self, *, start: int = ..., length: int = ...) -> None: ...

    @property
    def extent(self) -> Messages[Extent]: ...
    def __init__(self, *, extent: Iterable[Extent] = ...) -> None: ...
