# Written by protos/compile.py: change the .proto files instead.

from google.protobuf.message import Message

class Any(Message):
    type_url: str
    value: bytes
    def __init__(self, *, type_url: str = ..., value: bytes = ...) -> None: ...

class DoubleValue(Message):
    value: float
    def __init__(self, *, value: float = ...) -> None: ...

class FloatValue(Message):
    value: float
    def __init__(self, *, value: float = ...) -> None: ...

class Int64Value(Message):
    value: int
    def __init__(self, *, value: int = ...) -> None: ...

class UInt64Value(Message):
    value: int
    def __init__(self, *, value: int = ...) -> None: ...

class Int32Value(Message):
    value: int
    def __init__(self, *, value: int = ...) -> None: ...

class UInt32Value(Message):
    value: int
    def __init__(self, *, value: int = ...) -> None: ...

class BoolValue(Message):
    value: bool
    def __init__(self, *, value: bool = ...) -> None: ...

class StringValue(Message):
    value: str
    def __init__(self, *, value: str = ...) -> None: ...

class BytesValue(Message):
    value: bytes
    def __init__(self, *, value: bytes = ...) -> None: ...
