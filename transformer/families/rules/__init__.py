"""Decoding under rules: config.decode.rules, and two methods of config.decode.method.

Read repeats.py first, two rules of a few lines. forbidden.py forbids phrases, however they are
spelled in pieces. terminology.py requires phrases, by dynamic beam allocation; diverse.py is
diverse beam search. fusion.py adds a language model.
"""
