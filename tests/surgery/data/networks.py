"""Networks that old and new releases of TensorFlow can build; see make_tf_names.py."""

from typing import Any

import numpy as np
import tensorflow as tf

VERSION = tuple(int(part) for part in tf.__version__.split(".")[:2])
BATCH, TIME, WIDTH, UNITS = 2, 3, 4, 4
ALL: Any = {}
# Which rename table a network is about; tf1-rnn unless it says so.
TABLE: Any = {}
# Not empty: layers are those of tf.layers and Keras, not of tf.contrib.layers.
MODERN: Any = []


def find(name: str) -> Any:
    """Return a class or function by its name, wherever this release has it."""
    for path in ("nn.rnn_cell", "contrib.rnn", "nn", "contrib.legacy_seq2seq", "nn.seq2seq"):
        place = tf
        for part in path.split("."):
            place = getattr(place, part, None)
        if callable(getattr(place, name, None)):
            return getattr(place, name)
    raise AttributeError(name)


def network(function: Any) -> Any:
    """Register a network under the name of its function."""
    ALL[function.__name__] = function
    return function


def batch() -> Any:
    """Return inputs for all steps: [batch, time, width]."""
    ramp = np.arange(BATCH * TIME * WIDTH, dtype=np.float32)
    return tf.constant((ramp % 7 - 3).reshape(BATCH, TIME, WIDTH) / 4)


def steps() -> Any:
    """Return inputs as a list with one for each step."""
    stack = getattr(tf, "unstack", None) or tf.unpack
    return stack(batch(), axis=1)


def lengths() -> Any:
    return tf.constant([TIME, TIME - 1])


def tokens() -> Any:
    """Return symbols as a list with one vector for each step."""
    return [tf.constant([1, 2]), tf.constant([3, 0]), tf.constant([2, 2])]


def dynamic(cell: Any, **options: Any) -> Any:
    return tf.nn.dynamic_rnn(cell, batch(), dtype=tf.float32, **options)


def static_rnn(*arguments: Any, **options: Any) -> Any:
    return (find("rnn") if VERSION < (1, 0) else find("static_rnn"))(*arguments, **options)


def add_cell(name: str, *arguments: Any, **options: Any) -> None:
    """Register a cell under dynamic_rnn and its default scope."""

    def build() -> Any:
        return dynamic(find(name)(UNITS, *arguments, **options))

    ALL["_".join([name, *options, *map(str, arguments)])] = build


for _name in ("BasicRNNCell", "GRUCell", "BasicLSTMCell", "LSTMCell", "LayerNormBasicLSTMCell"):
    add_cell(_name)
add_cell("LSTMCell", use_peepholes=True)
add_cell("LSTMCell", num_proj=3)
add_cell("LSTMCell", num_proj=3, use_peepholes=True)
add_cell("LayerNormBasicLSTMCell", layer_norm=False)
add_cell("CoupledInputForgetGateLSTMCell", state_is_tuple=True)
add_cell("CoupledInputForgetGateLSTMCell", state_is_tuple=True, use_peepholes=True, num_proj=3)
add_cell("LSTMBlockCell")
add_cell("LSTMBlockCell", use_peephole=True)
add_cell("GRUBlockCell")
add_cell("UGRNNCell")
add_cell("NASCell")
add_cell("NASCell", 3, True)
add_cell("IntersectionRNNCell")
add_cell("TimeFreqLSTMCell", feature_size=WIDTH, frequency_skip=1)
add_cell("TimeFreqLSTMCell", feature_size=WIDTH, frequency_skip=1, use_peepholes=True)


TABLE["cell_in_a_scope_of_its_own"] = "tf1-rnn-cells"


@network
def cell_in_a_scope_of_its_own() -> Any:
    cell = find("BasicLSTMCell")(UNITS)
    state = cell.zero_state(BATCH, tf.float32)
    outputs = []
    with tf.variable_scope("model"), tf.variable_scope("RNN"):
        for number, step in enumerate(steps()):
            if number:
                tf.get_variable_scope().reuse_variables()
            output, state = cell(step, state)
            outputs.append(output)
    return outputs, state


@network
def cell_with_a_named_scope() -> Any:
    cell = find("GRUCell")(UNITS)
    return dynamic(cell, scope="encoder")


@network
def phased_lstm() -> Any:
    cell = find("PhasedLSTMCell")(UNITS)
    times = tf.constant([[[1.0], [2.0], [4.0]], [[0.5], [2.5], [3.0]]])
    return tf.nn.dynamic_rnn(cell, (times, batch()), dtype=tf.float32)


@network
def raw_rnn() -> Any:
    cell = find("GRUCell")(UNITS)
    inputs = tf.TensorArray(tf.float32, TIME)
    inputs = (inputs.unstack if hasattr(inputs, "unstack") else inputs.unpack)(
        tf.transpose(batch(), [1, 0, 2])
    )

    def loop(time: Any, output: Any, state: Any, loop_state: Any) -> Any:
        if output is None:
            state = cell.zero_state(BATCH, tf.float32)
        finished = time >= tf.constant([TIME] * BATCH)
        step = tf.cond(
            tf.reduce_all(finished),
            lambda: tf.zeros([BATCH, WIDTH]),
            lambda: inputs.read(time),
        )
        return finished, step, state, output, None

    outputs, state, _ = tf.nn.raw_rnn(cell, loop)
    return (outputs.stack if hasattr(outputs, "stack") else outputs.pack)(), state


def several(name: str) -> Any:
    """Return two cells as one, each of them new."""
    return find("MultiRNNCell")([find(name)(UNITS), find(name)(UNITS)])


for _name in ("BasicRNNCell", "GRUCell", "BasicLSTMCell", "LSTMCell"):
    ALL["MultiRNNCell_" + _name] = lambda name=_name: dynamic(several(name))
    ALL["static_" + _name] = lambda name=_name: static_rnn(
        find(name)(UNITS), steps(), dtype=tf.float32
    )
    ALL["bidirectional_dynamic_" + _name] = lambda name=_name: tf.nn.bidirectional_dynamic_rnn(
        find(name)(UNITS), find(name)(UNITS), batch(), lengths(), dtype=tf.float32
    )


@network
def bidirectional_static() -> Any:
    function = find("bidirectional_rnn" if VERSION < (1, 0) else "static_bidirectional_rnn")
    return function(find("LSTMCell")(UNITS), find("LSTMCell")(UNITS), steps(), dtype=tf.float32)


@network
def bidirectional_multi() -> Any:
    return tf.nn.bidirectional_dynamic_rnn(
        several("BasicLSTMCell"), several("BasicLSTMCell"), batch(), lengths(), dtype=tf.float32
    )


@network
def stack_bidirectional() -> Any:
    forward, backward = ([find("BasicLSTMCell")(UNITS) for _ in range(2)] for _ in range(2))
    return find("stack_bidirectional_rnn")(forward, backward, steps(), dtype=tf.float32)


@network
def stack_bidirectional_dynamic() -> Any:
    forward, backward = ([find("GRUCell")(UNITS) for _ in range(2)] for _ in range(2))
    return find("stack_bidirectional_dynamic_rnn")(
        forward, backward, batch(), sequence_length=lengths(), dtype=tf.float32
    )


@network
def twelve_layers() -> Any:
    cells = [find("BasicRNNCell")(UNITS) for _ in range(12)]
    return dynamic(find("MultiRNNCell")(cells))


@network
def multi_in_multi() -> Any:
    return dynamic(find("MultiRNNCell")([several("GRUCell"), several("GRUCell")]))


@network
def output_projection() -> Any:
    return dynamic(find("OutputProjectionWrapper")(find("GRUCell")(UNITS), 3))


@network
def input_projection() -> Any:
    return dynamic(find("InputProjectionWrapper")(find("GRUCell")(UNITS), 3))


@network
def wrappers_around_several() -> Any:
    wrapped = find("InputProjectionWrapper")(several("BasicLSTMCell"), 3)
    return dynamic(find("OutputProjectionWrapper")(wrapped, 2))


@network
def embedding() -> Any:
    cell = find("EmbeddingWrapper")(find("GRUCell")(UNITS), 5, 3)
    return static_rnn(cell, tokens(), dtype=tf.float32)


@network
def dropout() -> Any:
    return dynamic(find("DropoutWrapper")(find("BasicLSTMCell")(UNITS), 1.0))


@network
def residual() -> Any:
    return dynamic(find("ResidualWrapper")(find("GRUCell")(UNITS)))


@network
def highway() -> Any:
    return dynamic(find("HighwayWrapper")(find("GRUCell")(UNITS)))


@network
def attention() -> Any:
    cell = find("AttentionCellWrapper")(find("BasicLSTMCell")(UNITS), 2, state_is_tuple=True)
    return dynamic(cell)


@network
def attention_of_another_size() -> Any:
    inner = find("GRUCell")(UNITS)
    cell = find("AttentionCellWrapper")(inner, 2, attn_size=3, state_is_tuple=True)
    return static_rnn(cell, steps(), dtype=tf.float32)


@network
def grid_lstm() -> Any:
    cell = find("GridLSTMCell")(
        UNITS, feature_size=2, frequency_skip=2, use_peepholes=True, num_frequency_blocks=[2]
    )
    outputs, _ = static_rnn(cell, steps(), dtype=tf.float32)  # its state has two forms
    return outputs


@network
def bidirectional_grid_lstm() -> Any:
    cell = find("BidirectionalGridLSTMCell")(
        UNITS, feature_size=2, frequency_skip=2, num_frequency_blocks=[2]
    )
    return static_rnn(cell, steps(), dtype=tf.float32)


@network
def fused_lstm() -> Any:
    cell = find("LSTMBlockFusedCell")(UNITS, use_peephole=True)
    return cell(tf.transpose(batch(), [1, 0, 2]), dtype=tf.float32)


@network
def seq2seq_basic() -> Any:
    return find("basic_rnn_seq2seq")(steps(), steps(), find("GRUCell")(UNITS))


@network
def seq2seq_tied() -> Any:
    return find("tied_rnn_seq2seq")(steps(), steps(), find("GRUCell")(UNITS))


@network
def seq2seq_embedding() -> Any:
    cell = several("BasicLSTMCell")
    return find("embedding_rnn_seq2seq")(tokens(), tokens(), cell, 5, 5, 3)


@network
def seq2seq_embedding_tied() -> Any:
    return find("embedding_tied_rnn_seq2seq")(tokens(), tokens(), find("GRUCell")(UNITS), 5, 3)


@network
def seq2seq_attention() -> Any:
    cell = find("GRUCell")(UNITS)
    return find("embedding_attention_seq2seq")(tokens(), tokens(), cell, 5, 5, 3)


@network
def seq2seq_attention_several() -> Any:
    cell = several("GRUCell")
    return find("embedding_attention_seq2seq")(tokens(), tokens(), cell, 5, 5, 3, num_heads=2)


def after_a_step(optimizer: Any, outputs: Any) -> Any:
    """Return the variables after a step of an optimizer, which depends on its slots."""
    loss = sum(tf.reduce_sum(tf.square(each)) for each in outputs)
    with tf.control_dependencies([optimizer.minimize(loss)]):
        return [each.read_value() for each in tf.trainable_variables()]


@network
def slots_of_adam() -> Any:
    outputs, _ = dynamic(several("BasicLSTMCell"))
    return after_a_step(tf.train.AdamOptimizer(0.5), [outputs])


@network
def slots_of_momentum() -> Any:
    outputs, _ = dynamic(several("BasicLSTMCell"))
    return after_a_step(tf.train.MomentumOptimizer(0.5, 0.5), [outputs])


@network
def lstm_in_pieces() -> Any:
    if VERSION >= (1, 0):
        raise AttributeError("partitioned variables take the place of pieces")
    return dynamic(find("LSTMCell")(UNITS, num_unit_shards=2))


def layer(function: Any) -> Any:
    """Register a layer, which is to be built in two ways."""
    name = "layer_" + function.__name__
    ALL[name] = function
    TABLE[name] = "contrib-layers"
    return function


def image() -> Any:
    """Return a picture: [batch, height, width, channels]."""
    ramp = np.arange(2 * 5 * 5 * 3, dtype=np.float32)
    return tf.constant((ramp % 11 - 5).reshape(2, 5, 5, 3) / 4)


@layer
def dense() -> Any:
    rows = tf.reshape(image(), [2, 75])
    if MODERN:
        return tf.layers.dense(rows, 4, name="a"), tf.keras.layers.Dense(3, name="b")(rows)
    layers = tf.contrib.layers
    return (
        layers.fully_connected(rows, 4, activation_fn=None, scope="a"),
        layers.fully_connected(rows, 3, activation_fn=None, scope="b"),
    )


@layer
def convolutions() -> Any:
    if MODERN:
        with tf.variable_scope("tower"):
            first = tf.layers.conv2d(image(), 4, 3, padding="same", name="a")
        second = tf.keras.layers.Conv2D(2, 3, 2, padding="same", name="b")(first)
        third = tf.layers.conv2d_transpose(second, 3, 3, 2, padding="same", name="c")
        return first, second, third, tf.keras.layers.Conv2DTranspose(2, 3, name="d")(second)
    layers = tf.contrib.layers
    plain = {"activation_fn": None}
    with tf.variable_scope("tower"):
        first = layers.convolution2d(image(), 4, 3, scope="a", **plain)
    second = layers.convolution2d(first, 2, 3, stride=2, scope="b", **plain)
    third = layers.convolution2d_transpose(second, 3, 3, stride=2, scope="c", **plain)
    valid = dict(plain, padding="VALID")
    return first, second, third, layers.convolution2d_transpose(second, 2, 3, scope="d", **valid)


@layer
def separable_convolutions() -> Any:
    if MODERN:
        first = tf.layers.separable_conv2d(
            image(), 8, 3, padding="same", depth_multiplier=2, name="a"
        )
        return first, tf.keras.layers.DepthwiseConv2D(3, padding="same", name="b")(first)
    layers = tf.contrib.layers
    first = layers.separable_convolution2d(image(), 8, 3, 2, activation_fn=None, scope="a")
    return first, layers.separable_convolution2d(first, None, 3, 1, activation_fn=None, scope="b")


@layer
def slots_of_layers() -> Any:
    return after_a_step(tf.train.AdamOptimizer(0.5), dense())
