"""Files: on a disk or in a bucket, by rename, with checksums, one writer at a time.

Read paths.py, checksums.py, lock.py, streams.py (standard input and output).
"""
