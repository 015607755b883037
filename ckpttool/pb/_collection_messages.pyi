# Written by protos/compile.py: change the .proto files instead.

from collections.abc import Iterable, Mapping

from google.protobuf.internal.containers import MessageMap, ScalarMap
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as Messages
from google.protobuf.internal.containers import RepeatedScalarFieldContainer as Scalars
from google.protobuf.message import Message

class Signatures(Message):
    @property
    def default_signature(self) -> Signature: ...
    @property
    def named_signatures(self) -> MessageMap[str, Signature]: ...
    def __init__(
        self,
        *,
        default_signature: Signature | None = ...,
        named_signatures: Mapping[str, Signature] = ...,
    ) -> None: ...

class TensorBinding(Message):
    tensor_name: str
    def __init__(self, *, tensor_name: str = ...) -> None: ...

class AssetFile(Message):
    filename: str
    @property
    def tensor_binding(self) -> TensorBinding: ...
    def __init__(
        self, *, tensor_binding: TensorBinding | None = ..., filename: str = ...
    ) -> None: ...

class Signature(Message):
    @property
    def regression_signature(self) -> RegressionSignature: ...
    @property
    def classification_signature(self) -> ClassificationSignature: ...
    @property
    def generic_signature(self) -> GenericSignature: ...
    def __init__(
        self,
        *,
        regression_signature: RegressionSignature | None = ...,
        classification_signature: ClassificationSignature | None = ...,
        generic_signature: GenericSignature | None = ...,
    ) -> None: ...

class RegressionSignature(Message):
    @property
    def input(self) -> TensorBinding: ...
    @property
    def output(self) -> TensorBinding: ...
    def __init__(
        self, *, input: TensorBinding | None = ..., output: TensorBinding | None = ...
    ) -> None: ...

class ClassificationSignature(Message):
    @property
    def input(self) -> TensorBinding: ...
    @property
    def classes(self) -> TensorBinding: ...
    @property
    def scores(self) -> TensorBinding: ...
    def __init__(
        self,
        *,
        input: TensorBinding | None = ...,
        classes: TensorBinding | None = ...,
        scores: TensorBinding | None = ...,
    ) -> None: ...

class GenericSignature(Message):
    @property
    def map(self) -> MessageMap[str, TensorBinding]: ...
    def __init__(self, *, map: Mapping[str, TensorBinding] = ...) -> None: ...

class HParamDef(Message):
    class BytesList(Message):
        @property
        def value(self) -> Scalars[bytes]: ...
        def __init__(self, *, value: Iterable[bytes] = ...) -> None: ...

    class FloatList(Message):
        @property
        def value(self) -> Scalars[float]: ...
        def __init__(self, *, value: Iterable[float] = ...) -> None: ...

    class Int64List(Message):
        @property
        def value(self) -> Scalars[int]: ...
        def __init__(self, *, value: Iterable[int] = ...) -> None: ...

    class BoolList(Message):
        @property
        def value(self) -> Scalars[bool]: ...
        def __init__(self, *, value: Iterable[bool] = ...) -> None: ...

    class HParamType(Message):
        int64_value: int
        float_value: float
        bytes_value: bytes
        bool_value: bool
        @property
        def int64_list(self) -> HParamDef.Int64List: ...
        @property
        def float_list(self) -> HParamDef.FloatList: ...
        @property
        def bytes_list(self) -> HParamDef.BytesList: ...
        @property
        def bool_list(self) -> HParamDef.BoolList: ...
        def __init__(
            self,
            *,
            int64_value: int = ...,
            float_value: float = ...,
            bytes_value: bytes = ...,
            int64_list: HParamDef.Int64List | None = ...,
            float_list: HParamDef.FloatList | None = ...,
            bytes_list: HParamDef.BytesList | None = ...,
            bool_value: bool = ...,
            bool_list: HParamDef.BoolList | None = ...,
        ) -> None: ...

    @property
    def hparam(self) -> MessageMap[str, HParamType]: ...
    def __init__(self, *, hparam: Mapping[str, HParamType] = ...) -> None: ...

class ValuesDef(Message):
    @property
    def values(self) -> Scalars[str]: ...
    @property
    def external_values(self) -> ScalarMap[str, str]: ...
    def __init__(
        self, *, values: Iterable[str] = ..., external_values: Mapping[str, str] = ...
    ) -> None: ...

class ControlFlowContextDef(Message):
    @property
    def cond_ctxt(self) -> CondContextDef: ...
    @property
    def while_ctxt(self) -> WhileContextDef: ...
    def __init__(
        self, *, cond_ctxt: CondContextDef | None = ..., while_ctxt: WhileContextDef | None = ...
    ) -> None: ...

class CondContextDef(Message):
    context_name: str
    pred_name: str
    pivot_name: str
    branch: int
    @property
    def values_def(self) -> ValuesDef: ...
    @property
    def nested_contexts(self) -> Messages[ControlFlowContextDef]: ...
    def __init__(
        self,
        *,
        context_name: str = ...,
        pred_name: str = ...,
        pivot_name: str = ...,
        branch: int = ...,
        values_def: ValuesDef | None = ...,
        nested_contexts: Iterable[ControlFlowContextDef] = ...,
    ) -> None: ...

class WhileContextDef(Message):
    context_name: str
    parallel_iterations: int
    back_prop: bool
    swap_memory: bool
    pivot_name: str
    pivot_for_pred_name: str
    pivot_for_body_name: str
    maximum_iterations_name: str
    @property
    def loop_exit_names(self) -> Scalars[str]: ...
    @property
    def values_def(self) -> ValuesDef: ...
    @property
    def loop_enter_names(self) -> Scalars[str]: ...
    @property
    def nested_contexts(self) -> Messages[ControlFlowContextDef]: ...
    def __init__(
        self,
        *,
        context_name: str = ...,
        parallel_iterations: int = ...,
        back_prop: bool = ...,
        swap_memory: bool = ...,
        pivot_name: str = ...,
        pivot_for_pred_name: str = ...,
        pivot_for_body_name: str = ...,
        loop_exit_names: Iterable[str] = ...,
        values_def: ValuesDef | None = ...,
        loop_enter_names: Iterable[str] = ...,
        maximum_iterations_name: str = ...,
        nested_contexts: Iterable[ControlFlowContextDef] = ...,
    ) -> None: ...

class QueueRunnerDef(Message):
    queue_name: str
    close_op_name: str
    cancel_op_name: str
    @property
    def enqueue_op_name(self) -> Scalars[str]: ...
    @property
    def queue_closed_exception_types(self) -> Scalars[int]: ...
    def __init__(
        self,
        *,
        queue_name: str = ...,
        enqueue_op_name: Iterable[str] = ...,
        close_op_name: str = ...,
        cancel_op_name: str = ...,
        queue_closed_exception_types: Iterable[int] = ...,
    ) -> None: ...
