"""Files on a disk or in a bucket, settings of the process, memory, progress.

Read paths.py (paths, atomic writes, JSON files), lock.py, checksums.py (of files and of atomic
folders), startup.py (settings of the allocator, of garbage collection, of XLA and its compilation
cache), memory.py (out-of-memory errors, freed memory), devices.py (peak FLOP/s and memory of
hardware), progress.py (progress bars and lines).

Functions take a `Path` from `paths.path`, so that the same code works on a disk and in a bucket.
`checksums.corrupt_files` is *collective* (all processes call it together) unless `alone=True`; all
other functions are local.
"""
