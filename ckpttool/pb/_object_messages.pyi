# Written by protos/compile.py: change the .proto files instead.

from collections.abc import Iterable, Mapping
from typing import ClassVar

from google.protobuf.internal.containers import MessageMap
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as Messages
from google.protobuf.internal.containers import RepeatedScalarFieldContainer as Scalars
from google.protobuf.message import Message

from ckpttool.pb._checkpoint_messages import TrackableObjectGraph
from ckpttool.pb._google_messages import Any
from ckpttool.pb._tensor_messages import TensorProto, TensorShapeProto, VersionDef

class StructuredValue(Message):
    float64_value: float
    int64_value: int
    string_value: str
    bool_value: bool
    tensor_dtype_value: int
    @property
    def none_value(self) -> NoneValue: ...
    @property
    def tensor_shape_value(self) -> TensorShapeProto: ...
    @property
    def tensor_spec_value(self) -> TensorSpecProto: ...
    @property
    def type_spec_value(self) -> TypeSpecProto: ...
    @property
    def bounded_tensor_spec_value(self) -> BoundedTensorSpecProto: ...
    @property
    def list_value(self) -> ListValue: ...
    @property
    def tuple_value(self) -> TupleValue: ...
    @property
    def dict_value(self) -> DictValue: ...
    @property
    def named_tuple_value(self) -> NamedTupleValue: ...
    @property
    def tensor_value(self) -> TensorProto: ...
    @property
    def numpy_value(self) -> TensorProto: ...
    def __init__(
        self,
        *,
        none_value: NoneValue | None = ...,
        float64_value: float = ...,
        int64_value: int = ...,
        string_value: str = ...,
        bool_value: bool = ...,
        tensor_shape_value: TensorShapeProto | None = ...,
        tensor_dtype_value: int = ...,
        tensor_spec_value: TensorSpecProto | None = ...,
        type_spec_value: TypeSpecProto | None = ...,
        bounded_tensor_spec_value: BoundedTensorSpecProto | None = ...,
        list_value: ListValue | None = ...,
        tuple_value: TupleValue | None = ...,
        dict_value: DictValue | None = ...,
        named_tuple_value: NamedTupleValue | None = ...,
        tensor_value: TensorProto | None = ...,
        numpy_value: TensorProto | None = ...,
    ) -> None: ...

class NoneValue(Message):
    def __init__(self) -> None: ...

class ListValue(Message):
    @property
    def values(self) -> Messages[StructuredValue]: ...
    def __init__(self, *, values: Iterable[StructuredValue] = ...) -> None: ...

class TupleValue(Message):
    @property
    def values(self) -> Messages[StructuredValue]: ...
    def __init__(self, *, values: Iterable[StructuredValue] = ...) -> None: ...

class DictValue(Message):
    @property
    def fields(self) -> MessageMap[str, StructuredValue]: ...
    def __init__(self, *, fields: Mapping[str, StructuredValue] = ...) -> None: ...

class PairValue(Message):
    key: str
    @property
    def value(self) -> StructuredValue: ...
    def __init__(self, *, key: str = ..., value: StructuredValue | None = ...) -> None: ...

class NamedTupleValue(Message):
    name: str
    @property
    def values(self) -> Messages[PairValue]: ...
    def __init__(self, *, name: str = ..., values: Iterable[PairValue] = ...) -> None: ...

class TensorSpecProto(Message):
    name: str
    dtype: int
    @property
    def shape(self) -> TensorShapeProto: ...
    def __init__(
        self, *, name: str = ..., shape: TensorShapeProto | None = ..., dtype: int = ...
    ) -> None: ...

class BoundedTensorSpecProto(Message):
    name: str
    dtype: int
    @property
    def shape(self) -> TensorShapeProto: ...
    @property
    def minimum(self) -> TensorProto: ...
    @property
    def maximum(self) -> TensorProto: ...
    def __init__(
        self,
        *,
        name: str = ...,
        shape: TensorShapeProto | None = ...,
        dtype: int = ...,
        minimum: TensorProto | None = ...,
        maximum: TensorProto | None = ...,
    ) -> None: ...

class TypeSpecProto(Message):
    UNKNOWN: ClassVar[int]
    SPARSE_TENSOR_SPEC: ClassVar[int]
    INDEXED_SLICES_SPEC: ClassVar[int]
    RAGGED_TENSOR_SPEC: ClassVar[int]
    TENSOR_ARRAY_SPEC: ClassVar[int]
    DATA_DATASET_SPEC: ClassVar[int]
    DATA_ITERATOR_SPEC: ClassVar[int]
    OPTIONAL_SPEC: ClassVar[int]
    PER_REPLICA_SPEC: ClassVar[int]
    VARIABLE_SPEC: ClassVar[int]
    ROW_PARTITION_SPEC: ClassVar[int]
    REGISTERED_TYPE_SPEC: ClassVar[int]
    EXTENSION_TYPE_SPEC: ClassVar[int]
    type_spec_class: int
    type_spec_class_name: str
    num_flat_components: int
    @property
    def type_state(self) -> StructuredValue: ...
    def __init__(
        self,
        *,
        type_spec_class: int = ...,
        type_state: StructuredValue | None = ...,
        type_spec_class_name: str = ...,
        num_flat_components: int = ...,
    ) -> None: ...

class SavedObjectGraph(Message):
    @property
    def nodes(self) -> Messages[SavedObject]: ...
    @property
    def concrete_functions(self) -> MessageMap[str, SavedConcreteFunction]: ...
    def __init__(
        self,
        *,
        nodes: Iterable[SavedObject] = ...,
        concrete_functions: Mapping[str, SavedConcreteFunction] = ...,
    ) -> None: ...

class SavedObject(Message):
    registered_name: str
    registered_saver: str
    @property
    def children(self) -> Messages[TrackableObjectGraph.TrackableObject.ObjectReference]: ...
    @property
    def slot_variables(
        self,
    ) -> Messages[TrackableObjectGraph.TrackableObject.SlotVariableReference]: ...
    @property
    def user_object(self) -> SavedUserObject: ...
    @property
    def asset(self) -> SavedAsset: ...
    @property
    def function(self) -> SavedFunction: ...
    @property
    def variable(self) -> SavedVariable: ...
    @property
    def bare_concrete_function(self) -> SavedBareConcreteFunction: ...
    @property
    def constant(self) -> SavedConstant: ...
    @property
    def resource(self) -> SavedResource: ...
    @property
    def saveable_objects(self) -> MessageMap[str, SaveableObject]: ...
    @property
    def captured_tensor(self) -> CapturedTensor: ...
    @property
    def serialized_user_proto(self) -> Any: ...
    @property
    def dependencies(self) -> Messages[TrackableObjectGraph.TrackableObject.ObjectReference]: ...
    def __init__(
        self,
        *,
        children: Iterable[TrackableObjectGraph.TrackableObject.ObjectReference] = ...,
        slot_variables: Iterable[TrackableObjectGraph.TrackableObject.SlotVariableReference] = ...,
        user_object: SavedUserObject | None = ...,
        asset: SavedAsset | None = ...,
        function: SavedFunction | None = ...,
        variable: SavedVariable | None = ...,
        bare_concrete_function: SavedBareConcreteFunction | None = ...,
        constant: SavedConstant | None = ...,
        resource: SavedResource | None = ...,
        saveable_objects: Mapping[str, SaveableObject] = ...,
        captured_tensor: CapturedTensor | None = ...,
        registered_name: str = ...,
        serialized_user_proto: Any | None = ...,
        dependencies: Iterable[TrackableObjectGraph.TrackableObject.ObjectReference] = ...,
        registered_saver: str = ...,
    ) -> None: ...

class SavedUserObject(Message):
    identifier: str
    metadata: str
    @property
    def version(self) -> VersionDef: ...
    def __init__(
        self, *, identifier: str = ..., version: VersionDef | None = ..., metadata: str = ...
    ) -> None: ...

class SavedAsset(Message):
    asset_file_def_index: int
    def __init__(self, *, asset_file_def_index: int = ...) -> None: ...

class SavedFunction(Message):
    @property
    def concrete_functions(self) -> Scalars[str]: ...
    @property
    def function_spec(self) -> FunctionSpec: ...
    def __init__(
        self, *, concrete_functions: Iterable[str] = ..., function_spec: FunctionSpec | None = ...
    ) -> None: ...

class CapturedTensor(Message):
    name: str
    concrete_function: str
    def __init__(self, *, name: str = ..., concrete_function: str = ...) -> None: ...

class SavedConcreteFunction(Message):
    @property
    def bound_inputs(self) -> Scalars[int]: ...
    @property
    def canonicalized_input_signature(self) -> StructuredValue: ...
    @property
    def output_signature(self) -> StructuredValue: ...
    def __init__(
        self,
        *,
        bound_inputs: Iterable[int] = ...,
        canonicalized_input_signature: StructuredValue | None = ...,
        output_signature: StructuredValue | None = ...,
    ) -> None: ...

class SavedBareConcreteFunction(Message):
    concrete_function_name: str
    allowed_positional_arguments: int
    @property
    def argument_keywords(self) -> Scalars[str]: ...
    @property
    def function_spec(self) -> FunctionSpec: ...
    def __init__(
        self,
        *,
        concrete_function_name: str = ...,
        argument_keywords: Iterable[str] = ...,
        allowed_positional_arguments: int = ...,
        function_spec: FunctionSpec | None = ...,
    ) -> None: ...

class SavedConstant(Message):
    operation: str
    def __init__(self, *, operation: str = ...) -> None: ...

class SavedVariable(Message):
    dtype: int
    trainable: bool
    synchronization: int
    aggregation: int
    name: str
    device: str
    @property
    def shape(self) -> TensorShapeProto: ...
    @property
    def experimental_distributed_variable_components(self) -> Messages[SavedVariable]: ...
    def __init__(
        self,
        *,
        dtype: int = ...,
        shape: TensorShapeProto | None = ...,
        trainable: bool = ...,
        synchronization: int = ...,
        aggregation: int = ...,
        name: str = ...,
        device: str = ...,
        experimental_distributed_variable_components: Iterable[SavedVariable] = ...,
    ) -> None: ...

class FunctionSpec(Message):
    DEFAULT: ClassVar[int]
    ON: ClassVar[int]
    OFF: ClassVar[int]
    is_method: bool
    jit_compile: int
    @property
    def fullargspec(self) -> StructuredValue: ...
    @property
    def input_signature(self) -> StructuredValue: ...
    def __init__(
        self,
        *,
        fullargspec: StructuredValue | None = ...,
        is_method: bool = ...,
        input_signature: StructuredValue | None = ...,
        jit_compile: int = ...,
    ) -> None: ...

class SavedResource(Message):
    device: str
    def __init__(self, *, device: str = ...) -> None: ...

class SaveableObject(Message):
    save_function: int
    restore_function: int
    def __init__(self, *, save_function: int = ..., restore_function: int = ...) -> None: ...
