"""What each tensor of a checkpoint is, in one word.

The word comes from the object graph; for a listing, which reads nothing but the index, from the
spelling of the keys; in a name-based checkpoint from the collections of its MetaGraph if there is
one, and from names. The first rule that fits holds. A leaf is the last segment of a path or name.

The two ways to be wrong are not alike. A slot that is called a weight wastes some bytes; a weight
that is called a slot is lost when somebody prunes. So a rule needs two witnesses for a slot: a word
that optimizers use, and a variable in the checkpoint that the name leads to, of a shape that fits.
Where one of them is missing, it is a weight.

OBJECT-BASED CHECKPOINTS

    graph      the key _CHECKPOINTABLE_OBJECT_GRAPH
    slot       below `.OPTIMIZER_SLOT` in a key; in a slot list of a Keras optimizer: `_variables`,
               but for its element 0 if that is an integer scalar, `_momentums`, `_velocities`,
               `_m`, `_v`, `_u`, `_r`, `_c`
    ema        a slot called average, ema or moving_average; what is in the list
               `_model_variables_moving_average` of a Keras optimizer; by the graph also a variable
               whose full name ends in /ExponentialMovingAverage, behind that of another of its
               shape
    weight     what is in the list `_trainable_variables` of a Keras optimizer
    optimizer  any scalar directly in an optimizer, if it is not global_step, or the optimizer the
               root and this a step; what is no scalar there, in a Keras optimizer, is a slot
    other      what a path or full name places in a replay buffer
    table      an attribute that ends in -keys or -values
    iterator   a variant in any attribute but VARIABLE_VALUE
    step       an integer scalar called save_counter, global_step, step, train_step, training_step,
               local_step, sync_rep_local_step, epoch, train_counter, ckpt_saved_epoch or
               ckpt_saved_batch; a float scalar called global_step, train_step or training_step;
               in capitals or not, and with an underscore before it or not
    optimizer  a float scalar called learning_rate, lr, beta1_power, beta2_power, loss_scale or
               current_loss_scale; an integer scalar called iteration, iterations, good_steps or
               bad_steps; all of these also as Keras calls them, such as _learning_rate
    other      metrics: all below `keras_api/metrics`, `total` with `count`, confusion counts such
               as `true_positives`; the state of a random generator; strings, flags, Python state;
               any attribute but VARIABLE_VALUE, unless it holds floats that are no scalar
    weight     everything else: in doubt nothing is lost

An object is an optimizer if slot variables name it, or if it has an integer scalar `_iterations`
(the optimizers of Keras 3, and of tf_keras since 2.11); `iter` and a float scalar such as `decay`
or `learning_rate`; or a float scalar `beta1_power`, `beta2_power` or `current_loss_scale`. The
counter of an optimizer is not a step, although the two often agree.

Keys show the shortest path of an object only, so a listing calls a slot what the graph knows to be
an average kept by a Keras optimizer, and a weight what only its full name tells apart.

NAME-BASED CHECKPOINTS

    ema        the leaf ExponentialMovingAverage behind the name of a variable of the same shape,
               with or without a scope before it; ema, EMA, average, moving_average or
               MovingAverage behind such a name. Without the variable the average is the only
               copy, as in older batch normalization, and a weight
    ema, slot  what Keras' optimizers keep for a variable of the same shape, by what it is called:
               AdamW/average/dense/kernel, Adam/m/dense/kernel, adam_w/dense_kernel_momentum
    slot       training/Adam/Variable_3, training_1/RMSprop/m_3: a number for a name within an
               optimizer's scope in the one that Keras trains in, if something outside of it has
               the same shape or this a single element
    slot       a leaf that contains the name of an optimizer (Adam, Momentum, RMSProp, Adagrad,
               Adadelta, Adafactor, Ftrl, LAMB, LARS, ...) behind the name of a variable, with or
               without a scope before it: dense/kernel/Adam, train/dense/kernel/Adam_1
    slot       the leaf of a slot (m, v, vhat, momentum, velocity, rms, mg, accumulator, linear,
               adam_m, adam_v, lamb_m, lamb_v, ...) behind the name of a variable of the same shape,
               or between an optimizer's name and that: Adam/m/dense/kernel
    slot       vr, vc, slot_v, slot_vr, slot_vc behind a variable's name; also joined to it by "_"
    slot       a leaf of another name, if all tensors that have it stand behind the names of
               matrices and vectors of their own shape; with a MetaGraph, if all that is trained
               has one
    slot       where the variables are not in the checkpoint: an optimizer's leaf that is there
               twice, as X/Adam and X/Adam_1
    table      X-keys and X-values, if both are there
    iterator   a variant with "iterator" in its name, or _STATE or -state at its end
    optimizer  as above; scalars beside an `iter`, `iterations` or `iteration`, or in a scope with
               an optimizer's name
    other      `biased` and `local_step` behind a variable's name; else as above
    step, weight   as above

A number behind a leaf, as in beta1_power_1, is not looked at. A layer called "Adam" stays a layer:
no variable has the name that stands before its leaves. With a MetaGraph only the variables of
`trainable_variables` can have slots, and what is in that collection or in `model_variables` is
neither a slot nor an average; `global_step` and `metric_variables` settle step and other. What an
operation of an optimizer in the graph, such as ApplyAdam, takes beside the variable that it updates
is a slot or a hyper-parameter whatever it is called, and the variable a weight.
"""

from __future__ import annotations
