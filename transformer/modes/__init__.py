"""One file a --mode of launch.py; lines.py and collectives.py are read by some of them."""
