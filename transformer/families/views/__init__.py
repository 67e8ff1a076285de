"""Views of a line: each epoch reads other capitals, typing errors or sub-words of the same pairs.

Read views.py (what a view draws), subwords.py, then viewed.py. There a corpus of N pairs becomes
one of K * N, whose item k * N + i is view k of pair i, drawn from (seed, k, i) alone. All views are
tokenised once. Each is packed by itself, because rows with room for the longest view of each pair
would be a fourth longer. Epoch e reads the rows of view e mod K. Of a mixture it reads those that
the mixture's epoch e reads, so that the rows of one view are not read in complete passes.
"""
