"""One update after the other.

Read update.py (one update), optimizer.py, loop.py (the loop), meters.py (what is logged).
"""
