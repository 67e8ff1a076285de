"""Models map a batch's inputs to logits, and decode token by token.

Read `transformer.py` first: the paper's model, its encoder, its decoder, one step of decoding. It
is built from `stack.py` and `layers.py` (section 3.1), `attention.py` (3.2) and `positions.py`
(3.5). `boxes.py` defines the parts that fit into each box of figure 1, and makes a part from its
name. `masks.py` has attention masks, `dense.py` linear maps and dropout, and `cache.py` the KV
cache that beams share. `kernels.py` has the functions with faster forms in families/kernels.
`layer_options.py` has the layers' hyper-parameters. `fields.py` builds a model from its name and
config.model, and checks the keys. `ensemble.py` combines several models. Parts of other papers, and
models of other tasks, are in families/.

A model is a Flax module, a pure function of its params and its inputs. `config.architecture` is its
name in registry.MODELS, and `config.model` has its fields. A classifier's `__call__(..., *, train)`
returns logits_BV; families/texts/texts.py and families/images/images.py describe its inputs. A
language model returns logits_BTV, those of the next token at each position
(families/language_model/streams.py). config.evaluate.ensemble averages probabilities, so its models
must return logits: ensemble.py applies a softmax to the last axis, even to a regression's values. A
translation model must have:

    __call__(source, target, source_positions, target_positions, source_segments, target_segments,
             *, train) -> logits_BTV

with inputs int [B, S] or [B, T], as in `Transformer.hidden`; `pairs.assemble` in data/ has an
example. A row packs several sentence pairs, and ends with padding. A position may see its own pair
only: attention masks other pairs, and a recurrent model resets its state where the segment changes
(or sets config.data.pack to False). A model that mixes pairs gets no warning, only a worse loss.
Decoding also needs

    encode(source, source_positions, source_segments, *, train) -> memory
    prepare(memory, memory_mask_BS, room, num_beams) -> (memory, cache)
    step(tokens_BWT, position, memory, cache) -> (logits_BWTV, cache)

where `room` is the number of target positions that the cache can hold. `encode` returns a pytree of
arrays [B, S, ...], whose axis S is padded for decoding. The memory of `prepare` is any pytree of
arrays [B, ...]; arrays per sentence, such as an encoder's last state, are made there. The cache is
any pytree of `Slots` (cache.py) and of arrays [B, W, ...]; a search gathers the arrays by beam.
Arrays that grow with `room` belong in a record with a method `grow(times)`, such as `cache.Cache`,
because a search starts with little room. All beams start from the cache of `prepare`. A search
calls `step` with T = 1, first with the start symbol at position 0.

`__call__` with train=False must create all params, including those of layers that only `prepare`
uses. In training it gets the random key `dropout`. Fields are hashable, because the model is a
static argument of jit; `fields.py` checks their values. A model may have

    sow("losses", name, value [B, ...])     in `__call__` or `hidden`: added to the loss of any
                                            task, and logged by name (losses.forward)
    hidden(the inputs of __call__, *, train) -> x_BTD and logits(x_BTD, dtype) -> logits_BTV
        `__call__` combines them in float32; a training loss can then compute the logits in the
        dtype of activations, and in blocks (config.loss.blocks)
    flops(rows, length) -> int              FLOPs of one training step, for MFU
    takes_packed_rows                       False if a row may hold one sentence pair only
    num_texts                               2 for a classifier of two texts, segments 1 and 2
                                            (config.data.num_texts)
    attention_weights(sown) -> {name: weights}
                                            'encoder' [L, B, H, S, S], 'decoder' [L, B, H, T, T] and
                                            'cross' [L, B, H, T, S] from the collection
                                            'intermediates', or 'hops' [1, B, 1, T, S] of learned
                                            queries; --mode=align needs 'cross', and --mode=report
                                            shows all
    position_limit                          the longest sequence, where a field `max_positions`
                                            limits it
    dtype                                   params are cast to it for decoding; it may change on
                                            resuming; 'float32' without this field

Arrays have their shape as a suffix, in the letters of the einsums: B batch, S source (key) length,
T target (query) length, D d_model, H heads, K size of a head's queries and keys (the paper's d_k),
C size of its values (d_v), F d_ff, V vocabulary, W beams, L layers, R rows of a table of distances.
In decoding, a KV cache has room for P positions and N = P * W slots; T tokens of W beams are
Q = T * W queries.
"""
