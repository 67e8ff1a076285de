"""Files on a disk or in a bucket: atomic writes, checksums, the workdir's lock, standard streams.

Read paths.py (paths and atomic writes), json_files.py, checksums.py, lock.py, drafts.py (folders
that are whole or absent), standard_streams.py (standard input, output and error),
compilation_cache.py.

Functions take a `Path` that `paths.path` has returned, so that the same code works on a disk and in
a bucket. `checksums.corrupt_files` and `checksums.compare` are collective (they have to be called
by all processes together) unless they are called with `alone=True`; everything else is local.
"""
