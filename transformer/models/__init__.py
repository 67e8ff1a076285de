"""Models: what turns a batch's inputs into logits, and predicts one token after the other.

Read `transformer.py` first: the paper's model, its encoder, its decoder, one step of decoding. It
is made of `stack.py` and `layers.py` (section 3.1), `attention.py` (3.2) and `positions.py` (3.5).
`boxes.py` says what can be in each box of figure 1, and makes it of its name. `masks.py` says which
positions see which, `dense.py` has linear maps and dropout, `cache.py` the KV cache, which beams
share, and `kernels.py` what has faster forms in families/kernels. `layer_options.py` has the
hyper-parameters of the layers; `fields.py` builds a model from its name and the keys of
config.model, and checks these; `ensemble.py` makes one model of several. Other parts, and the
models of other tasks, are in families/.

A model is a Flax module, a pure function of its params and its inputs. `config.architecture` is its
name in registry.MODELS, `config.model` has its fields. A classifier's `__call__(..., *, train)`
returns logits_BV; families/texts/texts.py has the inputs of a text, families/images/images.py
those of an image. A language model returns logits_BTV, at each position those of the next token
(see families/language_model/streams.py). What config.evaluate.ensemble averages are probabilities:
its models must return logits, for ensemble.py takes their softmax over the last axis, also of a
regression's values. A translation model must have:

    __call__(source, target, source_positions, target_positions, source_segments, target_segments,
             *, train) -> logits_BTV

of int [B, S] and [B, T], as `Transformer.hidden` describes them; `pairs.assemble` in data/ has an
example. A row holds several sentence pairs one after the other, padding last: a position may only
see its own pair, so attention masks the others, and a recurrent model starts anew where the segment
changes (or sets config.data.pack to False). Nothing warns of a model that mixes the pairs of a row;
its loss is just worse. Decoding also needs

    encode(source, source_positions, source_segments, *, train) -> memory
    prepare(memory, memory_mask_BS, room, num_beams) -> (memory, cache)
    step(tokens_BWT, position, memory, cache) -> (logits_BWTV, cache)

where `room` is how many target positions the arrays of a cache can hold. `encode` returns a pytree
of arrays [B, S, ...], whose axis S decoding pads; the memory of `prepare` is any pytree of arrays
[B, ...] (what is one per sentence, such as an encoder's last state, is made there). The cache is
any pytree of arrays [B, W, ...], which a search gathers when a beam goes on from another one, and
of `Slots` (cache.py). What `room` makes larger is in a record with a method `grow(times)`, such as
`cache.Cache`: a search begins with little room. All beams begin with the cache of `prepare`. A
search calls `step` with T = 1, first with the start symbol at position 0.

`__call__` with train=False makes all params: a layer that only `prepare` uses would have none. In
training it gets the random key `dropout`. Fields are hashable, because the model is a static
argument of jit; `fields.py` has checks of their values. A model may have

    sow("losses", name, value [B, ...])     in `__call__`, or in `hidden`: added to the loss of any
                                            task, and logged by its name (losses.forward)
    hidden(the inputs of __call__, *, train) -> x_BTD and logits(x_BTD, dtype) -> logits_BTV
        `__call__` is made of them, with float32: a training loss can then make the logits in the
        type of activations, and in blocks (config.loss.blocks)
    flops(rows, length) -> int              FLOPs of one training step, for MFU
    takes_packed_rows                       False: a row may hold one sentence pair only
    num_texts                               2: a classifier of two texts a row, segments 1 and 2
                                            (config.data.num_texts)
    attention_weights(sown) -> {name: weights}
                                            'encoder' [L, B, H, S, S], 'decoder' [L, B, H, T, T] and
                                            'cross' [L, B, H, T, S] of the arrays that were sown
                                            into 'intermediates', or 'hops' [1, B, 1, T, S] of
                                            learned queries; --mode=align needs 'cross', and
                                            --mode=report shows all
    position_limit                          how many positions a sequence may have, if that is
                                            limited (by a field `max_positions`)
    dtype                                   the type that params are cast to for decoding, and that
                                            may change on resuming; without this field 'float32'

Arrays have their shape as a suffix, the same letters as in the einsums: B batch, S source (key)
length, T target (query) length, D d_model, H heads, K size of a head's queries and keys (the
paper's d_k), C of its values (d_v), F d_ff, V vocabulary, W beams, L layers, R rows of a table of
distances. In decoding, P is how many positions a KV cache has room for, N = P * W are its slots,
and Q = T * W the queries of T tokens of W beams.
"""
