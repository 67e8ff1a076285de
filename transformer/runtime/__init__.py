"""What any process needs: files on a disk or in a bucket, settings, memory, progress.

Read paths.py (paths, atomic writes, JSON files), lock.py, checksums.py (also of folders
that are complete or absent), startup.py (settings of the allocator, of garbage collection,
of XLA and its cache of programs), memory.py (out-of-memory errors, freed memory), devices.py (peak
FLOP/s and memory of hardware), progress.py (progress bars and lines).

Functions take a `Path` that `paths.path` has returned, so that the same code works on a disk and in
a bucket. `checksums.corrupt_files` is *collective* (all processes have to call it together) unless
it is called with `alone=True`; everything else is local.
"""
