# Written by protos/compile.py: change the .proto files instead.

from collections.abc import Iterable, Mapping

from google.protobuf.internal.containers import MessageMap, ScalarMap
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as Messages
from google.protobuf.internal.containers import RepeatedScalarFieldContainer as Scalars
from google.protobuf.message import Message

from ckpttool.pb._op_messages import AttrValue, FullTypeDef, OpDef
from ckpttool.pb._tensor_messages import TensorShapeProto, VersionDef

class CostGraphDef(Message):
    class Node(Message):
        class InputInfo(Message):
            preceding_node: int
            preceding_port: int
            def __init__(self, *, preceding_node: int = ..., preceding_port: int = ...) -> None: ...

        class OutputInfo(Message):
            size: int
            alias_input_port: int
            dtype: int
            @property
            def shape(self) -> TensorShapeProto: ...
            def __init__(
                self,
                *,
                size: int = ...,
                alias_input_port: int = ...,
                shape: TensorShapeProto | None = ...,
                dtype: int = ...,
            ) -> None: ...

        name: str
        device: str
        id: int
        temporary_memory_size: int
        is_final: bool
        compute_cost: int
        host_temp_memory_size: int
        device_temp_memory_size: int
        persistent_memory_size: int
        compute_time: int
        memory_time: int
        device_persistent_memory_size: int
        inaccurate: bool
        @property
        def input_info(self) -> Messages[InputInfo]: ...
        @property
        def output_info(self) -> Messages[OutputInfo]: ...
        @property
        def control_input(self) -> Scalars[int]: ...
        def __init__(
            self,
            *,
            name: str = ...,
            device: str = ...,
            id: int = ...,
            input_info: Iterable[InputInfo] = ...,
            output_info: Iterable[OutputInfo] = ...,
            temporary_memory_size: int = ...,
            is_final: bool = ...,
            control_input: Iterable[int] = ...,
            compute_cost: int = ...,
            host_temp_memory_size: int = ...,
            device_temp_memory_size: int = ...,
            persistent_memory_size: int = ...,
            compute_time: int = ...,
            memory_time: int = ...,
            device_persistent_memory_size: int = ...,
            inaccurate: bool = ...,
        ) -> None: ...

    class AggregatedCost(Message):
        cost: float
        dimension: str
        def __init__(self, *, cost: float = ..., dimension: str = ...) -> None: ...

    @property
    def node(self) -> Messages[Node]: ...
    @property
    def cost(self) -> Messages[AggregatedCost]: ...
    def __init__(
        self, *, node: Iterable[Node] = ..., cost: Iterable[AggregatedCost] = ...
    ) -> None: ...

class NodeDef(Message):
    class ExperimentalDebugInfo(Message):
        @property
        def original_node_names(self) -> Scalars[str]: ...
        @property
        def original_func_names(self) -> Scalars[str]: ...
        def __init__(
            self,
            *,
            original_node_names: Iterable[str] = ...,
            original_func_names: Iterable[str] = ...,
        ) -> None: ...

    name: str
    op: str
    device: str
    @property
    def input(self) -> Scalars[str]: ...
    @property
    def attr(self) -> MessageMap[str, AttrValue]: ...
    @property
    def experimental_debug_info(self) -> ExperimentalDebugInfo: ...
    @property
    def experimental_type(self) -> FullTypeDef: ...
    def __init__(
        self,
        *,
        name: str = ...,
        op: str = ...,
        input: Iterable[str] = ...,
        device: str = ...,
        attr: Mapping[str, AttrValue] = ...,
        experimental_debug_info: ExperimentalDebugInfo | None = ...,
        experimental_type: FullTypeDef | None = ...,
    ) -> None: ...

class FunctionDefLibrary(Message):
    @property
    def function(self) -> Messages[FunctionDef]: ...
    @property
    def gradient(self) -> Messages[GradientDef]: ...
    @property
    def registered_gradients(self) -> Messages[RegisteredGradient]: ...
    def __init__(
        self,
        *,
        function: Iterable[FunctionDef] = ...,
        gradient: Iterable[GradientDef] = ...,
        registered_gradients: Iterable[RegisteredGradient] = ...,
    ) -> None: ...

class FunctionDef(Message):
    class ArgAttrs(Message):
        @property
        def attr(self) -> MessageMap[str, AttrValue]: ...
        def __init__(self, *, attr: Mapping[str, AttrValue] = ...) -> None: ...

    class Node(Message):
        op: str
        @property
        def ret(self) -> Scalars[str]: ...
        @property
        def arg(self) -> Scalars[str]: ...
        @property
        def dep(self) -> Scalars[str]: ...
        @property
        def attr(self) -> MessageMap[str, AttrValue]: ...
        def __init__(
            self,
            *,
            ret: Iterable[str] = ...,
            op: str = ...,
            arg: Iterable[str] = ...,
            dep: Iterable[str] = ...,
            attr: Mapping[str, AttrValue] = ...,
        ) -> None: ...

    @property
    def signature(self) -> OpDef: ...
    @property
    def node(self) -> Messages[Node]: ...
    @property
    def node_def(self) -> Messages[NodeDef]: ...
    @property
    def ret(self) -> ScalarMap[str, str]: ...
    @property
    def attr(self) -> MessageMap[str, AttrValue]: ...
    @property
    def control_ret(self) -> ScalarMap[str, str]: ...
    @property
    def arg_attr(self) -> MessageMap[int, ArgAttrs]: ...
    @property
    def resource_arg_unique_id(self) -> ScalarMap[int, int]: ...
    def __init__(
        self,
        *,
        signature: OpDef | None = ...,
        node: Iterable[Node] = ...,
        node_def: Iterable[NodeDef] = ...,
        ret: Mapping[str, str] = ...,
        attr: Mapping[str, AttrValue] = ...,
        control_ret: Mapping[str, str] = ...,
        arg_attr: Mapping[int, ArgAttrs] = ...,
        resource_arg_unique_id: Mapping[int, int] = ...,
    ) -> None: ...

class GradientDef(Message):
    function_name: str
    gradient_func: str
    def __init__(self, *, function_name: str = ..., gradient_func: str = ...) -> None: ...

class RegisteredGradient(Message):
    gradient_func: str
    registered_op_type: str
    def __init__(self, *, gradient_func: str = ..., registered_op_type: str = ...) -> None: ...

class GraphDebugInfo(Message):
    class FileLineCol(Message):
        file_index: int
        line: int
        col: int
        func: str
        code: str
        def __init__(
            self,
            *,
            file_index: int = ...,
            line: int = ...,
            col: int = ...,
            func: str = ...,
            code: str = ...,
        ) -> None: ...

    class StackTrace(Message):
        @property
        def file_line_cols(self) -> Messages[GraphDebugInfo.FileLineCol]: ...
        @property
        def frame_id(self) -> Scalars[int]: ...
        def __init__(
            self,
            *,
            file_line_cols: Iterable[GraphDebugInfo.FileLineCol] = ...,
            frame_id: Iterable[int] = ...,
        ) -> None: ...

    @property
    def files(self) -> Scalars[str]: ...
    @property
    def traces(self) -> MessageMap[str, StackTrace]: ...
    @property
    def frames_by_id(self) -> MessageMap[int, FileLineCol]: ...
    @property
    def name_to_trace_id(self) -> ScalarMap[str, int]: ...
    @property
    def traces_by_id(self) -> MessageMap[int, StackTrace]: ...
    def __init__(
        self,
        *,
        files: Iterable[str] = ...,
        traces: Mapping[str, StackTrace] = ...,
        frames_by_id: Mapping[int, FileLineCol] = ...,
        name_to_trace_id: Mapping[str, int] = ...,
        traces_by_id: Mapping[int, StackTrace] = ...,
    ) -> None: ...

class GraphDef(Message):
    version: int
    @property
    def node(self) -> Messages[NodeDef]: ...
    @property
    def library(self) -> FunctionDefLibrary: ...
    @property
    def versions(self) -> VersionDef: ...
    @property
    def debug_info(self) -> GraphDebugInfo: ...
    def __init__(
        self,
        *,
        node: Iterable[NodeDef] = ...,
        library: FunctionDefLibrary | None = ...,
        version: int = ...,
        versions: VersionDef | None = ...,
        debug_info: GraphDebugInfo | None = ...,
    ) -> None: ...

class VariableDef(Message):
    variable_name: str
    initializer_name: str
    snapshot_name: str
    is_resource: bool
    initial_value_name: str
    trainable: bool
    synchronization: int
    aggregation: int
    @property
    def save_slice_info_def(self) -> SaveSliceInfoDef: ...
    def __init__(
        self,
        *,
        variable_name: str = ...,
        initializer_name: str = ...,
        snapshot_name: str = ...,
        save_slice_info_def: SaveSliceInfoDef | None = ...,
        is_resource: bool = ...,
        initial_value_name: str = ...,
        trainable: bool = ...,
        synchronization: int = ...,
        aggregation: int = ...,
    ) -> None: ...

class SaveSliceInfoDef(Message):
    full_name: str
    @property
    def full_shape(self) -> Scalars[int]: ...
    @property
    def var_offset(self) -> Scalars[int]: ...
    @property
    def var_shape(self) -> Scalars[int]: ...
    def __init__(
        self,
        *,
        full_name: str = ...,
        full_shape: Iterable[int] = ...,
        var_offset: Iterable[int] = ...,
        var_shape: Iterable[int] = ...,
    ) -> None: ...
