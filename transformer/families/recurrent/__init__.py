"""Recurrent models from before the Transformer: LSTMs and GRUs, with and without attention.

Read cells.py (one position), recurrent.py (encoder and decoder: Sutskever et al. 2014, Bahdanau et
al. 2015, Luong et al. 2015, Paulus et al. 2017) and recurrent_step.py (one step of the decoder).
Text classifiers with self-attention are self_attentive.py (Lin et al. 2017) and intra_attention.py
(Cheng et al. 2016). lstm_language_model.py uses the cell of intra_attention.py.
"""
