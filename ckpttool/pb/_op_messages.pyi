# Written by protos/compile.py: change the .proto files instead.

from collections.abc import Iterable, Mapping

from google.protobuf.internal.containers import MessageMap
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as Messages
from google.protobuf.internal.containers import RepeatedScalarFieldContainer as Scalars
from google.protobuf.message import Message

from ckpttool.pb._tensor_messages import ResourceHandleProto, TensorProto, TensorShapeProto

class AttrValue(Message):
    class ListValue(Message):
        @property
        def s(self) -> Scalars[bytes]: ...
        @property
        def i(self) -> Scalars[int]: ...
        @property
        def f(self) -> Scalars[float]: ...
        @property
        def b(self) -> Scalars[bool]: ...
        @property
        def type(self) -> Scalars[int]: ...
        @property
        def shape(self) -> Messages[TensorShapeProto]: ...
        @property
        def tensor(self) -> Messages[TensorProto]: ...
        @property
        def func(self) -> Messages[NameAttrList]: ...
        def __init__(
            self,
            *,
            s: Iterable[bytes] = ...,
            i: Iterable[int] = ...,
            f: Iterable[float] = ...,
            b: Iterable[bool] = ...,
            type: Iterable[int] = ...,
            shape: Iterable[TensorShapeProto] = ...,
            tensor: Iterable[TensorProto] = ...,
            func: Iterable[NameAttrList] = ...,
        ) -> None: ...

    s: bytes
    i: int
    f: float
    b: bool
    type: int
    placeholder: str
    @property
    def list(self) -> ListValue: ...
    @property
    def shape(self) -> TensorShapeProto: ...
    @property
    def tensor(self) -> TensorProto: ...
    @property
    def func(self) -> NameAttrList: ...
    def __init__(
        self,
        *,
        list: ListValue | None = ...,
        s: bytes = ...,
        i: int = ...,
        f: float = ...,
        b: bool = ...,
        type: int = ...,
        shape: TensorShapeProto | None = ...,
        tensor: TensorProto | None = ...,
        placeholder: str = ...,
        func: NameAttrList | None = ...,
    ) -> None: ...

class NameAttrList(Message):
    name: str
    @property
    def attr(self) -> MessageMap[str, AttrValue]: ...
    def __init__(self, *, name: str = ..., attr: Mapping[str, AttrValue] = ...) -> None: ...

class FullTypeDef(Message):
    type_id: int
    s: str
    i: int
    @property
    def args(self) -> Messages[FullTypeDef]: ...
    def __init__(
        self, *, type_id: int = ..., args: Iterable[FullTypeDef] = ..., s: str = ..., i: int = ...
    ) -> None: ...

class OpDef(Message):
    class ArgDef(Message):
        name: str
        description: str
        type: int
        type_attr: str
        number_attr: str
        type_list_attr: str
        is_ref: bool
        @property
        def handle_data(self) -> Messages[ResourceHandleProto.DtypeAndShape]: ...
        @property
        def experimental_full_type(self) -> FullTypeDef: ...
        def __init__(
            self,
            *,
            name: str = ...,
            description: str = ...,
            type: int = ...,
            type_attr: str = ...,
            number_attr: str = ...,
            type_list_attr: str = ...,
            handle_data: Iterable[ResourceHandleProto.DtypeAndShape] = ...,
            is_ref: bool = ...,
            experimental_full_type: FullTypeDef | None = ...,
        ) -> None: ...

    class AttrDef(Message):
        name: str
        type: str
        description: str
        has_minimum: bool
        minimum: int
        @property
        def default_value(self) -> AttrValue: ...
        @property
        def allowed_values(self) -> AttrValue: ...
        def __init__(
            self,
            *,
            name: str = ...,
            type: str = ...,
            default_value: AttrValue | None = ...,
            description: str = ...,
            has_minimum: bool = ...,
            minimum: int = ...,
            allowed_values: AttrValue | None = ...,
        ) -> None: ...

    name: str
    summary: str
    description: str
    is_aggregate: bool
    is_stateful: bool
    is_commutative: bool
    allows_uninitialized_input: bool
    is_distributed_communication: bool
    @property
    def input_arg(self) -> Messages[ArgDef]: ...
    @property
    def output_arg(self) -> Messages[ArgDef]: ...
    @property
    def attr(self) -> Messages[AttrDef]: ...
    @property
    def deprecation(self) -> OpDeprecation: ...
    @property
    def control_output(self) -> Scalars[str]: ...
    def __init__(
        self,
        *,
        name: str = ...,
        input_arg: Iterable[ArgDef] = ...,
        output_arg: Iterable[ArgDef] = ...,
        attr: Iterable[AttrDef] = ...,
        summary: str = ...,
        description: str = ...,
        deprecation: OpDeprecation | None = ...,
        is_aggregate: bool = ...,
        is_stateful: bool = ...,
        is_commutative: bool = ...,
        allows_uninitialized_input: bool = ...,
        control_output: Iterable[str] = ...,
        is_distributed_communication: bool = ...,
    ) -> None: ...

class OpDeprecation(Message):
    version: int
    explanation: str
    def __init__(self, *, version: int = ..., explanation: str = ...) -> None: ...

class OpList(Message):
    @property
    def op(self) -> Messages[OpDef]: ...
    def __init__(self, *, op: Iterable[OpDef] = ...) -> None: ...
