"""The storage of an archive: a folder, or a prefix in a bucket of an object store with the S3 API.

`paths` has the operations common to both, `s3` the object store. Only `s3` imports obstore, when it is needed.
"""
