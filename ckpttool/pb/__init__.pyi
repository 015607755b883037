# Written by protos/compile.py: change the .proto files instead.

from google.protobuf.message import Message

from ckpttool.pb._checkpoint_messages import BundleEntryProto as BundleEntryProto
from ckpttool.pb._checkpoint_messages import BundleHeaderProto as BundleHeaderProto
from ckpttool.pb._checkpoint_messages import CheckpointState as CheckpointState
from ckpttool.pb._checkpoint_messages import RegisteredSaver as RegisteredSaver
from ckpttool.pb._checkpoint_messages import SavedSlice as SavedSlice
from ckpttool.pb._checkpoint_messages import SavedSliceMeta as SavedSliceMeta
from ckpttool.pb._checkpoint_messages import SavedTensorSliceMeta as SavedTensorSliceMeta
from ckpttool.pb._checkpoint_messages import SavedTensorSlices as SavedTensorSlices
from ckpttool.pb._checkpoint_messages import TrackableObjectGraph as TrackableObjectGraph
from ckpttool.pb._collection_messages import AssetFile as AssetFile
from ckpttool.pb._collection_messages import ClassificationSignature as ClassificationSignature
from ckpttool.pb._collection_messages import CondContextDef as CondContextDef
from ckpttool.pb._collection_messages import ControlFlowContextDef as ControlFlowContextDef
from ckpttool.pb._collection_messages import GenericSignature as GenericSignature
from ckpttool.pb._collection_messages import HParamDef as HParamDef
from ckpttool.pb._collection_messages import QueueRunnerDef as QueueRunnerDef
from ckpttool.pb._collection_messages import RegressionSignature as RegressionSignature
from ckpttool.pb._collection_messages import Signature as Signature
from ckpttool.pb._collection_messages import Signatures as Signatures
from ckpttool.pb._collection_messages import TensorBinding as TensorBinding
from ckpttool.pb._collection_messages import ValuesDef as ValuesDef
from ckpttool.pb._collection_messages import WhileContextDef as WhileContextDef
from ckpttool.pb._google_messages import Any as Any
from ckpttool.pb._google_messages import BoolValue as BoolValue
from ckpttool.pb._google_messages import BytesValue as BytesValue
from ckpttool.pb._google_messages import DoubleValue as DoubleValue
from ckpttool.pb._google_messages import FloatValue as FloatValue
from ckpttool.pb._google_messages import Int32Value as Int32Value
from ckpttool.pb._google_messages import Int64Value as Int64Value
from ckpttool.pb._google_messages import StringValue as StringValue
from ckpttool.pb._google_messages import UInt32Value as UInt32Value
from ckpttool.pb._google_messages import UInt64Value as UInt64Value
from ckpttool.pb._graph_messages import CostGraphDef as CostGraphDef
from ckpttool.pb._graph_messages import FunctionDef as FunctionDef
from ckpttool.pb._graph_messages import FunctionDefLibrary as FunctionDefLibrary
from ckpttool.pb._graph_messages import GradientDef as GradientDef
from ckpttool.pb._graph_messages import GraphDebugInfo as GraphDebugInfo
from ckpttool.pb._graph_messages import GraphDef as GraphDef
from ckpttool.pb._graph_messages import NodeDef as NodeDef
from ckpttool.pb._graph_messages import RegisteredGradient as RegisteredGradient
from ckpttool.pb._graph_messages import SaveSliceInfoDef as SaveSliceInfoDef
from ckpttool.pb._graph_messages import VariableDef as VariableDef
from ckpttool.pb._keras_messages import SavedMetadata as SavedMetadata
from ckpttool.pb._model_messages import AssetFileDef as AssetFileDef
from ckpttool.pb._model_messages import CollectionDef as CollectionDef
from ckpttool.pb._model_messages import (
    CompositeTensorVariantMetadata as CompositeTensorVariantMetadata,
)
from ckpttool.pb._model_messages import FingerprintDef as FingerprintDef
from ckpttool.pb._model_messages import MetaGraphDef as MetaGraphDef
from ckpttool.pb._model_messages import NamedTensorProto as NamedTensorProto
from ckpttool.pb._model_messages import SavedModel as SavedModel
from ckpttool.pb._model_messages import SaverDef as SaverDef
from ckpttool.pb._model_messages import SignatureDef as SignatureDef
from ckpttool.pb._model_messages import TensorInfo as TensorInfo
from ckpttool.pb._object_messages import BoundedTensorSpecProto as BoundedTensorSpecProto
from ckpttool.pb._object_messages import CapturedTensor as CapturedTensor
from ckpttool.pb._object_messages import DictValue as DictValue
from ckpttool.pb._object_messages import FunctionSpec as FunctionSpec
from ckpttool.pb._object_messages import ListValue as ListValue
from ckpttool.pb._object_messages import NamedTupleValue as NamedTupleValue
from ckpttool.pb._object_messages import NoneValue as NoneValue
from ckpttool.pb._object_messages import PairValue as PairValue
from ckpttool.pb._object_messages import SaveableObject as SaveableObject
from ckpttool.pb._object_messages import SavedAsset as SavedAsset
from ckpttool.pb._object_messages import SavedBareConcreteFunction as SavedBareConcreteFunction
from ckpttool.pb._object_messages import SavedConcreteFunction as SavedConcreteFunction
from ckpttool.pb._object_messages import SavedConstant as SavedConstant
from ckpttool.pb._object_messages import SavedFunction as SavedFunction
from ckpttool.pb._object_messages import SavedObject as SavedObject
from ckpttool.pb._object_messages import SavedObjectGraph as SavedObjectGraph
from ckpttool.pb._object_messages import SavedResource as SavedResource
from ckpttool.pb._object_messages import SavedUserObject as SavedUserObject
from ckpttool.pb._object_messages import SavedVariable as SavedVariable
from ckpttool.pb._object_messages import StructuredValue as StructuredValue
from ckpttool.pb._object_messages import TensorSpecProto as TensorSpecProto
from ckpttool.pb._object_messages import TupleValue as TupleValue
from ckpttool.pb._object_messages import TypeSpecProto as TypeSpecProto
from ckpttool.pb._op_messages import AttrValue as AttrValue
from ckpttool.pb._op_messages import FullTypeDef as FullTypeDef
from ckpttool.pb._op_messages import NameAttrList as NameAttrList
from ckpttool.pb._op_messages import OpDef as OpDef
from ckpttool.pb._op_messages import OpDeprecation as OpDeprecation
from ckpttool.pb._op_messages import OpList as OpList
from ckpttool.pb._splitter_messages import ChunkedField as ChunkedField
from ckpttool.pb._splitter_messages import ChunkedMessage as ChunkedMessage
from ckpttool.pb._splitter_messages import ChunkInfo as ChunkInfo
from ckpttool.pb._splitter_messages import ChunkMetadata as ChunkMetadata
from ckpttool.pb._splitter_messages import FieldIndex as FieldIndex
from ckpttool.pb._tensor_messages import CompressedComponentMetadata as CompressedComponentMetadata
from ckpttool.pb._tensor_messages import CompressedElement as CompressedElement
from ckpttool.pb._tensor_messages import ResourceHandleProto as ResourceHandleProto
from ckpttool.pb._tensor_messages import SerializedDType as SerializedDType
from ckpttool.pb._tensor_messages import TensorProto as TensorProto
from ckpttool.pb._tensor_messages import TensorShapeProto as TensorShapeProto
from ckpttool.pb._tensor_messages import TensorSliceProto as TensorSliceProto
from ckpttool.pb._tensor_messages import UncompressedElement as UncompressedElement
from ckpttool.pb._tensor_messages import VariantTensorDataProto as VariantTensorDataProto
from ckpttool.pb._tensor_messages import VersionDef as VersionDef

PACKAGES: tuple[str, ...]

def message_class(full_name: str) -> type[Message]: ...
